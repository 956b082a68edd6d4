#!/usr/bin/env bash
# Runs one task for each kind of source, over http and with rsync, and two whose source is bad.
# usage: sources.sh [WORKERS=1]
# shellcheck source=../setup.sh
source "$(dirname "$0")/../setup.sh" sources "${1:-1}"

mkdir store
files=(-C "$here/program" run.sh data)
tar -cf store/program.tar "${files[@]}"
tar -czf store/program.tar.gz "${files[@]}"
tar -cjf store/program.tar.bz2 "${files[@]}"
cp store/program.tar.bz2 store/program.tar.bz
(cd "$here/program" && python3 -m zipfile -c "$place/store/program.zip" run.sh data)
printf '#!/bin/sh\necho "bare script with input $*"\n' >store/run.sh

web=$(free_port)
python3 -m http.server --bind 127.0.0.1 --directory store "$web" >web.log 2>&1 &
pids+=($!)
serves() { : <"/dev/tcp/127.0.0.1/$web"; }
until_it_is "a web server" serves

ids=()
names=()
# open NAME SOURCE
open() {
    ids+=("$("$llts" tdf open manager.cfg "$1" "$2" "from $1")")
    names+=("$1")
}
for ending in tar tar.gz tar.bz tar.bz2 zip; do
    open "http-$ending" "http://127.0.0.1:$web/program.$ending"
    open "rsync-$ending" "rsync:$place/store/program.$ending"
    open "relative-$ending" "rsync:store/program.$ending"
done
open http-script "http://127.0.0.1:$web/run.sh"
open rsync-script "rsync:store/run.sh"
good=${#ids[@]}
open bad-http "http://127.0.0.1:$web/missing.zip"
open bad-rsync "rsync:/nowhere/program.tar"
until_it_is "the end of all tasks" have_ended "${ids[@]}"

wrong=0
for at in "${!ids[@]}"; do
    id=${ids[at]} name=${names[at]}
    if ((at < good)); then
        case $name in
            *-script) expected="bare script with input from $name" ;;
            *) expected="program with data 42 and input from $name" ;;
        esac
        [ "$(cat "ended/$id.out")" = "$expected" ] && [ ! -s "ended/$id.err" ] || wrong=1
        echo "$name: $(cat "ended/$id.out" "ended/$id.err")"
    else
        grep -q "program './$name/run.sh' does not exist!" "ended/$id.err" || wrong=1
        echo "$name has failed, as it should: $(cat "ended/$id.err")"
    fi
done
if ((wrong)); then
    echo "sources: a task has another result than it should" >&2
    exit 1
fi
echo "$good good sources, $((${#ids[@]} - good)) bad ones"
