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

# A C++ compiler builds libzmq, the peer of many tests; Python with venv and pip runs the
# conformance suite. TDF needs a Redis, certificates for it, and rsync as one of its sources; prompts work in worktrees of git.
missing=()
command -v g++ >/dev/null || missing+=(g++)
command -v python3 >/dev/null || missing+=(python3)
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
command -v redis-server >/dev/null || missing+=(redis-server)
command -v openssl >/dev/null || missing+=(openssl)
command -v rsync >/dev/null || missing+=(rsync)
command -v git >/dev/null || missing+=(git)
# The pages of the manual run in a network of their own.
command -v ip >/dev/null || [[ -x /usr/sbin/ip ]] || missing+=(iproute2)
if ((${#missing[@]})); then
    as_root=()
    ((EUID == 0)) || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq >/dev/null
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -qq -y "${missing[@]}" >/dev/null
fi
if ! command -v cargo >/dev/null; then
    echo "scripts/test.sh: cargo is missing; install Rust 1.95 or later from https://rustup.rs" >&2
    exit 1
fi

# nextest runs each test in a process of its own and ends with one summary; cargo test does too, with a summary for each file.
if cargo nextest --version >/dev/null 2>&1; then
    exec cargo nextest run --no-fail-fast "$@"
fi
exec cargo test --no-fail-fast "$@"
