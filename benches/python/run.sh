#!/usr/bin/env bash
# Compares `executor()` of the Python client with ProcessPoolExecutor, Dask and Celery on Redis: one call, and 10,000 by map, in
# alternating rounds. Needs python3 with venv, redis-server, a release build, and PyPI. Arguments: the number of rounds (5).
set -euo pipefail
cd "$(dirname "$0")/../.."

cargo build --release --quiet --package llts
venv=target/bench-python-venv
if [[ ! -x $venv/bin/celery ]]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet 'dask[distributed]==2026.8.0' 'celery[redis]==5.7.0' pyzmq==27.3.0 cloudpickle==3.1.3
fi
folder=$(mktemp -d "${TMPDIR:-/tmp}/llts-compare.XXXXXX")
export LLTS_HOME=$folder/home PYTHONPATH=clients/python/src:benches/python
ended() {
    target/release/llts down >/dev/null 2>&1 || true
    kill "${started[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$folder"
}
started=()
trap ended EXIT
target/release/llts init "$LLTS_HOME" >/dev/null
target/release/llts up 2 >/dev/null
export COMPARE_REDIS=redis+socket://$folder/redis.sock
redis-server --port 0 --unixsocket "$folder/redis.sock" --dir "$folder" --appendonly yes --appendfsync always --save '' \
    >"$folder/redis.log" &
started+=($!)
"$venv/bin/celery" --app compare worker --concurrency 2 --loglevel ERROR >"$folder/celery.log" 2>&1 &
started+=($!)
"$venv/bin/python" benches/python/compare.py "${1:-5}"
