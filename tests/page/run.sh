#!/bin/sh
# Runs the tests of the page in headless Chromium against target/debug/llts (cargo build), or against the program that
# SERVICE_BINARY names.
#
#   tests/page/run.sh [pytest arguments; paths start in this folder]
#
# PAGE_TASKS=100000 makes the test of a long list a longer one.
set -eu

case ${SERVICE_BINARY:-/} in /*) ;; *) export SERVICE_BINARY="$PWD/$SERVICE_BINARY" ;; esac
cd "$(dirname "$0")"
venv=../../target/page-venv
axe=axe-core@4.12.1

mkdir -p ../../target
exec 9>../../target/page-venv.lock
flock 9
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
# The copies say what is installed: no network access as long as the versions stay the same.
cmp -s requirements.txt "$venv/requirements.txt" || {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement requirements.txt
    cp requirements.txt "$venv/requirements.txt"
}
[ "$(cat "$venv/axe" 2>/dev/null)" = "$axe" ] || {
    npm install --silent --no-audit --no-fund --prefix "$venv" "$axe" >/dev/null
    echo "$axe" >"$venv/axe"
}
flock -u 9

# The folders have short names: the path of a socket has at most 107 bytes.
folder=$(mktemp -d /tmp/llts.XXXXXX)
trap 'rm -rf "$folder"' EXIT
AXE="$venv/node_modules/axe-core/axe.min.js" "$venv/bin/python" -m pytest -q -n 2 --basetemp "$folder" "$@"
