#!/bin/sh
# sleeper: sleeps for the parameter `seconds` (default 10). Shows how a tool ends well when it is killed.
#
#   llts submit sleeper seconds=60
#   llts kill TASK_…
#
# On SIGTERM it says so in report.log and exits with 143 (128 + 15). Parameters are in the environment, too: PARAM_<key>.
set -eu

seconds=${PARAM_seconds:-10}
child=

end() {
    # The signal goes to the whole process group, so the child may be gone already.
    [ -z "$child" ] || kill "$child" 2>/dev/null || :
    echo 'ended by SIGTERM' >> report.log
    exit 143
}
trap end TERM

# A shell runs its trap only after the command in the foreground, but `wait` returns as soon as the signal comes.
sleep "$seconds" &
child=$!
status=0
wait "$child" || status=$?
[ "$status" -eq 0 ] || exit "$status"
printf 'slept for %s seconds\n' "$seconds" >> report.log
