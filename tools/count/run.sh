#!/bin/sh
# count: answers with the number of tasks that its process has had. Shows a tool that stays, without any package.
#
#   llts run count
#
# Needs Python 3; count.py holds the work.
set -eu

exec python3 count.py
