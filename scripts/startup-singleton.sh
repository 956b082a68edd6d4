#!/bin/sh
# Starts a controller and agents in the background, once per STATE_DIR: startup-singleton.sh [N], 30 agents by default.
# Returns when all of them are ready.
set -eu
cd "$(dirname "$0")/.."
cargo build --target-dir target --release
[ $# -gt 0 ] || set -- 30
exec target/release/llts up "$@"
