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

# Where nobody compiles by hand, nothing is compiled again after a change of a few lines, and nobody runs a debugger: without the data
# for both, the sources of this project take two thirds of the processor time.
if [[ ! -d ${CARGO_TARGET_DIR:-target}/debug/incremental ]]; then
    export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=none
fi

# nextest runs each test in a process of its own and ends with one summary; cargo test does too, with a summary for each file.
if ! cargo nextest --version >/dev/null 2>&1; then
    exec cargo test --workspace --no-fail-fast "$@"
fi

# nextest does not run the examples of the documentation. They run beside it. Those of single crates would build all dependencies once
# more, with other features.
examples=$(mktemp)
trap 'rm -f "$examples"' EXIT
cargo test --quiet --doc --workspace &>"$examples" &
result=0
cargo nextest run --workspace --no-fail-fast "$@" || result=$?
if ! wait $!; then
    cat "$examples"
    echo "scripts/test.sh: an example of the documentation failed, see above" >&2
    exit 1
fi
exit $result
