#!/bin/sh
# Stops what startup-singleton.sh has started, and waits until nothing is left of it.
set -eu
cd "$(dirname "$0")/.."
[ -x target/release/llts ] || cargo build --target-dir target --release
exec target/release/llts down "$@"
