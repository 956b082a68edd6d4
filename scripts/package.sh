#!/usr/bin/env bash
# Builds the program of the profile `dist`, its completions and manual pages, and a Debian package of all of it (cargo-deb).
# package.sh --files makes what the package is made of, without cargo-deb.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ $# -gt 1 || ($# -eq 1 && $1 != --files) ]]; then
    echo "usage: scripts/package.sh [--files]" >&2
    exit 2
fi
# The assets of the package are named in this folder, wherever the user lets cargo build.
export CARGO_TARGET_DIR=$PWD/target
# `llts --version` names the commit; a build from an archive knows it without this.
if [[ -z ${LLTS_COMMIT-} ]] && git rev-parse --git-dir &> /dev/null; then
    LLTS_COMMIT=$(git rev-parse --short=12 HEAD)
    export LLTS_COMMIT
fi
cargo build --locked --profile dist --bin llts
llts=target/dist/llts
out=target/package
rm -rf "$out"
mkdir -p "$out/man"
"$llts" completions bash > "$out/llts.bash"
"$llts" completions zsh > "$out/_llts"
"$llts" completions fish > "$out/llts.fish"
"$llts" man "$out/man"
if [[ ${1:-} == --files ]]; then
    exit 0
fi
if ! cargo deb --version > /dev/null 2>&1; then
    echo "cargo-deb is missing; install it with \`cargo install cargo-deb\`" >&2
    exit 1
fi
cargo deb --no-build --no-strip --profile dist
