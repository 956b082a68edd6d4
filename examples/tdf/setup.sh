# What both examples begin with: a Redis of their own, the three configurations, a server, workers and a manager, all of which end
# with the example. Sourced with the name of the example and the number of workers.
set -euo pipefail

example=$1
workers=$2
here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
llts=$(realpath "$(command -v "${LLTS:-llts}")")
place=$(mktemp -d)
pids=()

finish() {
    # Last started, first ended; Redis is the first one.
    for ((at = ${#pids[@]} - 1; at >= 0; at--)); do
        kill "${pids[at]}" 2>/dev/null || true
        wait "${pids[at]}" 2>/dev/null || true
    done
    rm -rf "$place"
}
trap finish EXIT

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# until WHAT COMMAND…: waits until the command succeeds, at most a minute.
until_it_is() {
    local what=$1 end=$((SECONDS + 60))
    shift
    until "$@" 2>/dev/null; do
        if ((SECONDS >= end)); then
            echo "$example: never: $what" >&2
            exit 1
        fi
        sleep 0.05
    done
}

port=$(free_port)
cd "$place"
redis-server --bind 127.0.0.1 --port "$port" --save '' --daemonize no >redis.log &
pids+=($!)
answers() { (echo PING; sleep 0.1) | timeout 1 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port; cat >&3; head -c 5 <&3" | grep -q PONG; }
until_it_is "a Redis that answers" answers

redis="[redis]
host=127.0.0.1
port=$port
password=None
db=0
[tdf]
namespace=$example"
printf '%s\n[server]\nround_duration=0.5\n' "$redis" >server.cfg
printf '%s\n[worker]\n%s\n' "$redis" 'task_output_filename=$program/results/$worker-$taskId-$round.out
task_error_filename=$program/results/$worker-$taskId-$round.err
sleep_after_success=0
sleep_after_failure=0
sleep_after_no_process_claimed=2.0' >worker.cfg
printf '%s\n[manager]\nround_duration=0.5\n[task_defaults]\n%s\n' "$redis" 'start_after=0
end_before=inf
timeout=inf
max_fails=0
max_timeouts=0
add_random_start_offset=False' >manager.cfg

# A callback finds the task as JSON on its standard input. It keeps what the last round wrote in ended/ID.out and ended/ID.err.
mkdir ended
cat >keep.py <<'PYTHON'
import json, os, sys
task = json.load(sys.stdin)
last = task["rounds"][-1]
for stream, ending in (("error", "err"), ("output", "out")):
    path = f"ended/{task['id']}.{ending}"
    with open(path + ".draft", "w") as file:
        file.write(last.get(stream, ""))
    os.replace(path + ".draft", path)
PYTHON

"$llts" tdf server server server.cfg 2>server.log &
pids+=($!)
for ((number = 1; number <= workers; number++)); do
    "$llts" tdf worker "worker-$number" worker.cfg 2>"worker-$number.log" &
    pids+=($!)
done
callback='python3 keep.py'
"$llts" tdf manage manager.cfg --on-succeeded "$callback" --on-failed "$callback" --on-timed-out "$callback" \
    --on-expired "$callback" 2>manager.log &
pids+=($!)

# Waits until these tasks have ended.
have_ended() {
    local id
    for id in "$@"; do [ -e "ended/$id.out" ] || return 1; done
}
