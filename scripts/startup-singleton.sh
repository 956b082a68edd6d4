#!/bin/sh
# Starts a controller and agents in the background, once per STATE_DIR: startup-singleton.sh [N], 30 agents by default.
# Returns when all of them are ready.
set -eu
cd "$(dirname "$0")/.."
# What was pulled since is built; without cargo, the program that is there serves.
if [ ! -x target/release/llts ] || command -v cargo >/dev/null; then
    cargo build --target-dir target --release
fi
[ $# -gt 0 ] || set -- 30
exec target/release/llts up "$@"
