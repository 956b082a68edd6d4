#!/bin/sh
# Runs the Python tests against target/debug/llts (cargo build), or against the program that SERVICE_BINARY names.
#
#   tests/python/run.sh [pytest arguments; paths start in this folder]
#
# SOAK_TASKS=2000 makes the soak test a long one: so many tasks on 30 agents.
set -eu

case ${SERVICE_BINARY:-/} in /*) ;; *) export SERVICE_BINARY="$PWD/$SERVICE_BINARY" ;; esac
cd "$(dirname "$0")"
venv=../../target/python-venv

./venv.sh
# The tests wait more than they work, so more of them run at once than there are cores. The folders have short names: the path of a
# socket has at most 107 bytes.
folder=$(mktemp -d /tmp/llts.XXXXXX)
trap 'rm -rf "$folder"' EXIT
"$venv/bin/python" -m pytest -q -n 3 --dist worksteal --basetemp "$folder" "$@"
