#!/usr/bin/env bash
# Builds llts as it is shipped, and measures it beside its floors and rivals on this machine:
# prints one table, writes target/bench.json.
# BENCH_QUICK=1 takes seconds and tiny numbers, to see that everything works; they say nothing about speed. Arguments go to
# `llts-bench`: cases, --rounds ... The engines by themselves: cargo bench.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! pkg-config --exists libzmq 2>/dev/null; then
    echo "scripts/bench.sh: libzmq, one of the rivals, is missing: apt-get install pkg-config libzmq3-dev" >&2
    exit 1
fi
cargo build --target-dir target --profile dist --quiet --package llts --package llts-bench --bins
arguments=(--json target/bench.json)
if [[ ${BENCH_QUICK:-0} == 1 ]]; then
    arguments+=(--quick)
fi
exec target/dist/llts-bench "${arguments[@]}" "$@"
