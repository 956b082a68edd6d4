#!/usr/bin/env bash
# Sums a range in rounds: each task sums a bucket of numbers, and the sums are the numbers of the next round, until one is left.
# usage: sum.sh [LAST=1000] [BUCKET=10] [WORKERS=1]
last=${1:-1000}
bucket=${2:-10}
# shellcheck source=../setup.sh
source "$(dirname "$0")/../setup.sh" sum "${3:-1}"

tar -czf sum.tar.gz -C "$here/program" run.sh
seq "$last" >numbers
round=0
while (($(wc -l <numbers) > 1)); do
    # One line, and so one task, for each bucket.
    xargs -n "$bucket" <numbers >inputs
    mapfile -t ids < <("$llts" tdf open manager.cfg sum "rsync:$place/sum.tar.gz" --each-line inputs)
    until_it_is "the end of round $round" have_ended "${ids[@]}"
    for id in "${ids[@]}"; do
        if [ -s "ended/$id.err" ]; then
            echo "sum: task $id has failed: $(cat "ended/$id.err")" >&2
            exit 1
        fi
        cat "ended/$id.out"
    done >numbers
    echo "round $round: ${#ids[@]} tasks"
    round=$((round + 1))
done
sum=$(cat numbers)
expected=$((last * (last + 1) / 2))
if [ "$sum" != "$expected" ]; then
    echo "sum: 1 + … + $last is $expected, not $sum" >&2
    exit 1
fi
echo "1 + … + $last = $sum"
