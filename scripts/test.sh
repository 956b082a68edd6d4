#!/usr/bin/env bash
# Installs what the tests need and is missing, then runs every test. Arguments go to the test runner.
# `scripts/test.sh quick` installs nothing, and runs what needs no other program: the units, the scenarios, the rules of the sources
# and 200 seeds of the simulation.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ${1:-} == quick ]]; then
    shift
    export SIMULATION_SEEDS=${SIMULATION_SEEDS:-200}
    if cargo nextest --version >/dev/null 2>&1; then
        exec cargo nextest run --no-fail-fast -E 'kind(lib) | test(/^architecture::/) | test(/^simulation::.*keeps_every_promise/)' "$@"
    fi
    cargo test --no-fail-fast --lib "$@"
    exec cargo test --no-fail-fast --test it -- architecture:: keeps_every_promise "$@"
fi

scripts/packages.sh
if ! command -v cargo >/dev/null; then
    echo "scripts/test.sh: cargo is missing; install Rust 1.95 or later from https://rustup.rs" >&2
    exit 1
fi

# The examples. Those of single crates would build all dependencies once more, with other features.
cargo test --quiet --doc --workspace

# nextest runs each test in a process of its own and ends with one summary; cargo test does too, with a summary for each file.
if cargo nextest --version >/dev/null 2>&1; then
    exec cargo nextest run --workspace --no-fail-fast "$@"
fi
exec cargo test --workspace --no-fail-fast "$@"
