#!/usr/bin/env bash
# What one task costs the controller and the agent, one task at a time on an idle service: processor time, context switches, reads,
# writes and bytes from /proc, then each system call from strace. Prints Markdown for benches/README.md.
#
#   benches/budget.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-10}
llts=${LLTS:-$PWD/target/dist/llts}
program=${LLTS_BENCH:-$PWD/target/dist/llts-bench}
folder=$(mktemp -d)
# Tasks one after the other, until we end it.
TMPDIR=$folder "$program" start --rounds 1000 >"$folder/out" 2>&1 &
bench=$!
# shellcheck disable=SC2064  # the values of now are meant
trap "kill -TERM $bench 2>/dev/null || true; wait $bench 2>/dev/null || true; rm -rf '$folder'" EXIT

field() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$2" | head -n 1; }
for _ in $(seq 600); do
    service=$(ls "$folder"/llts-run-*/state/service.json 2>/dev/null || true)
    if [[ -n $service && $(field controller "$service") ]]; then
        break
    fi
    sleep 0.1
done
endpoint=$(field controller "$service")
supervisor=$(field pid "$service")

finished() { "$llts" stats --controller "$endpoint" --output json | tr ',{}' '\n' | sed -n 's/.*"FINISHED": *\([0-9]*\).*/\1/p'; }
child() { # the child of the supervisor whose command line has this word
    local pid
    for pid in $(cat "/proc/$supervisor/task/"*/children); do
        if tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qx "$1"; then
            echo "$pid"
            return
        fi
    done
}
controller=$(child controller)
agent=$(child agent)
while (($(finished) < 20)); do sleep 0.1; done

sum() { awk "{ total += \$$2 } END { printf \"%d\", total }" $1; } # of one column of many files
snapshot() { # processor ns, context switches, read calls, write calls, bytes written, bytes to the disk
    local pid=$1
    sum "/proc/$pid/task/*/schedstat" 1
    echo -n ' '
    cat "/proc/$pid/task/"*/status | awk '/ctxt_switches/ { total += $2 } END { printf "%d ", total }'
    awk '/^(syscr|syscw|wchar|write_bytes)/ { value[$1] = $2 }
         END { print value["syscr:"], value["syscw:"], value["wchar:"], value["write_bytes:"] }' "/proc/$pid/io"
}
before=("$(snapshot "$controller")" "$(snapshot "$agent")")
first=$(finished)
sleep "$seconds"
tasks=$(($(finished) - first))
after=("$(snapshot "$controller")" "$(snapshot "$agent")")

echo "$tasks tasks, one after the other; for each of them:"
echo
echo '| process | processor | context switches | read calls | write calls | bytes written | bytes to the disk |'
echo '|---|---|---|---|---|---|---|'
for at in 0 1; do
    name=$([[ $at == 0 ]] && echo controller || echo agent)
    echo "${before[$at]} ${after[$at]}" | awk -v tasks="$tasks" -v name="$name" '{
        printf "| %s | %.0f us | %.1f | %.1f | %.1f | %.0f | %.0f |\n", name, ($7 - $1) / tasks / 1000,
            ($8 - $2) / tasks, ($9 - $3) / tasks, ($10 - $4) / tasks, ($11 - $5) / tasks, ($12 - $6) / tasks
    }'
done

for name in controller agent; do
    threads=()
    for thread in "/proc/${!name}/task/"*; do threads+=(-p "${thread##*/}"); done
    first=$(finished)
    # Only the threads that are there: what an agent starts is not the agent.
    timeout --signal=INT "$seconds" strace -qq -c -U calls,name -o "$folder/calls" "${threads[@]}" || true
    tasks=$(($(finished) - first))
    echo
    echo "System calls of the $name for each of $tasks tasks (under strace):"
    echo
    awk -v tasks="$tasks" '$1 ~ /^[0-9]+$/ && $2 != "total" && $1 / tasks >= 0.05 {
        printf "%s%s %.1f", separator, $2, $1 / tasks; separator = ", "
    } END { print "" }' "$folder/calls"
done
