#!/bin/sh
# pi: computes pi on many agents. Shows a dispatcher and its workers as one tool with two start modes.
#
#   llts run pi parts=8 terms=2000
#
# parts   into how many pieces the sum is cut (default 8)
# terms   how many terms of the series are summed; each adds 1.39 digits (default 1000)
# mode    `worker` in the tasks that the dispatcher submits itself; absent in yours
#
# Needs Python 3 with pyzmq; pi.py holds the work. Exit code: 0, 2 a parameter is wrong, 3 Python or pyzmq is missing.
set -eu

command -v python3 > /dev/null || {
    echo 'pi needs python3, which is not in the PATH of the agent' >> report.log
    exit 3
}
exec python3 pi.py
