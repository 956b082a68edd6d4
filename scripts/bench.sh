#!/usr/bin/env bash
# Builds llts as it is shipped and measures it beside its floors and rivals on this machine: prints one table, writes target/bench.json.
# BENCH_QUICK=1 takes seconds and tiny numbers, to see that everything works; they say nothing about speed. Arguments go to
# `llts bench`: cases, --rounds, --markdown ... The engines by themselves: cargo bench.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --quiet
arguments=(--json target/bench.json)
if [[ ${BENCH_QUICK:-0} == 1 ]]; then
    arguments+=(--quick)
fi
# The defaults are measured, whatever ./config.toml says here.
exec target/release/llts bench --config src/config/defaults.toml "${arguments[@]}" "$@"
