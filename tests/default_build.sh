#!/usr/bin/env bash
# Builds llts as users do: without the feature libzmq, which every test has, and without a C++ compiler. The program runs a task, and
# says how to get the transport that it lacks.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "tests/default_build.sh: $*" >&2
    exit 1
}

export CXX=false
# The compiler repeats the warnings of a build that it need not make again. Lints were checked with all features.
said=$(cargo build --quiet --bin llts 2>&1) || fail "the default build fails: $said"
[[ -z $said ]] || fail "the default build has warnings: $said"

llts=$PWD/target/debug/llts
folder=$(mktemp -d)
# What should not have been started is ended.
trap 'timeout 60 "$llts" down >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT
cd "$folder"
export LLTS_TOOL_SOURCES_DIR=$OLDPWD/tools LLTS_HOME=$folder

"$llts" run helloworld name=world | grep -q world || fail "the first command of the README does not greet"

echo 'TRANSPORT = "zmq"' >config.toml
for command in controller 'agent' 'up 1' 'run helloworld'; do
    # shellcheck disable=SC2086  # words are meant
    said=$(timeout 60 "$llts" $command 2>&1) && fail "llts $command starts with TRANSPORT = \"zmq\""
    [[ $said == *'config.toml:1: TRANSPORT is "zmq"'*'cargo build --release --features libzmq'* ]] ||
        fail "llts $command does not say how to build with libzmq: $said"
done
