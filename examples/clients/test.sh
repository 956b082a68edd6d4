#!/usr/bin/env bash
# Runs the clients here and the tools in examples/stay, as far as their languages are installed, with a service with keys: that of
# target/debug/llts (cargo build), or of the program that SERVICE_BINARY names. Several may run at once.
#
#   examples/clients/test.sh
#
# Modules and built programs go to target/examples-clients. JEROMQ is the class path of JeroMQ and jnacl; without it, they come from a
# package at PyPI that contains them.
set -euo pipefail

# Variables of another service must not reach this one. Each language takes its arguments for UTF-8.
unset CONTROLLER_ADDRESS __TASK_ID__ "${!LLTS_@}"
export LC_ALL=C.UTF-8 LLTS_CONTROLLER_REP_PORT=0 LLTS_CONTROLLER_PUB_PORT=0

[[ -z ${SERVICE_BINARY:-} ]] || SERVICE_BINARY=$(realpath "$SERVICE_BINARY")
cd "$(dirname "$0")/../.."
llts=${SERVICE_BINARY:-$PWD/target/debug/llts}
[[ -x $llts ]] || { echo "there is no program $llts: build it with cargo build, or set SERVICE_BINARY" >&2 && exit 1; }
built=$PWD/target/examples-clients
# The name is short: the path of a socket has at most 107 bytes.
folder=$(mktemp -d /tmp/llts.XXXXXX)
export LLTS_HOME=$folder/home GOCACHE=$built/go-cache
mkdir -p "$built"/{node,go,c,java,stay}

end() {
    local code=$?
    trap - EXIT
    jobs -p | xargs -r kill 2>/dev/null || :
    ((code == 0)) || tail -n 20 "$LLTS_HOME"/log/* 2>/dev/null || :
    "$llts" down >/dev/null 2>&1 || :
    rm -rf "$folder"
    exit "$code"
}
trap end EXIT

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

check() {
    [[ $2 == "$3" ]] || fail "failed: $1" 'expected:' "$2" 'but got:' "$3"
    echo "ok: $1"
}

has() {
    command -v "$1" >/dev/null
}

# build RESULT SOURCE COMMAND…: only if the source is newer than the result.
build() {
    [[ $1 -nt $2 ]] || "${@:3}"
}

# skip WHAT: a language that is not tried.
skip() {
    echo "*** skipped: $1 ***"
}

build_node() {
    has node || { skip 'no node' && return; }
    stays+=(node)
    # The version and the hashes are those of the tests of the endpoint; the copy says what is installed.
    local peers=tests/it/endpoint/peers
    if [[ ! -d $built/node/node_modules/zeromq ]] || ! cmp -s {$peers,"$built/node"}/package-lock.json; then
        has npm || { skip 'no npm' && return; }
        cp $peers/package*.json "$built/node"
        npm ci --silent --ignore-scripts --no-audit --no-fund --fetch-retries=0 --cache "$built/npm-cache" --prefix "$built/node" ||
            { skip 'no zeromq for node: it cannot be fetched' && return; }
    fi
    # A program finds the modules beside it.
    build "$built/node/submit.mjs" examples/clients/submit.mjs cp examples/clients/submit.mjs "$built/node"
    clients+=(node)
}

build_go() {
    has go || { skip 'no go' && return; }
    build "$built/stay/tool" examples/stay/go/tool.go go build -o "$built/stay/tool" examples/stay/go/tool.go
    stays+=(go)
    pkg-config --exists libzmq 2>/dev/null || { skip 'no libzmq for go' && return; }
    build "$built/go/submit" examples/clients/submit.go go build -o "$built/go/submit" examples/clients/submit.go
    clients+=(go)
}

build_c() {
    { has gcc && pkg-config --exists libzmq jansson 2>/dev/null; } || { skip 'no gcc, libzmq and jansson' && return; }
    local flags
    read -ra flags < <(pkg-config --cflags --libs libzmq jansson)
    build "$built/c/submit" examples/clients/submit.c \
        gcc -Wall -Wextra -Werror -O2 -o "$built/c/submit" examples/clients/submit.c "${flags[@]}"
    clients+=(c)
}

build_java() {
    local gson=/usr/share/java/gson.jar
    { has javac && [[ -e $gson ]]; } || { skip 'no javac and gson' && return; }
    if [[ -z ${JEROMQ:-} ]]; then
        JEROMQ=$built/java/jeromq.jar
        [[ -e $JEROMQ ]] || fetch_jeromq || { skip 'no JeroMQ: it cannot be fetched' && return; }
    fi
    class_path=$built/java:$JEROMQ:$gson
    build "$built/java/Submit.class" examples/clients/Submit.java \
        javac -Xlint:all -Werror -cp "$class_path" -d "$built/java" examples/clients/Submit.java
    clients+=(java)
}

# PyPI is reached where Maven Central is not: a kernel for Jupyter holds JeroMQ 0.6 and its CURVE.
fetch_jeromq() {
    local wheel=kotlin-jupyter-kernel==0.19.0.944
    local hash=sha256:dc654a426a28e6621aeb0bd7772d268a9a877aabae4a17b73383752a416281a3
    tests/python/venv.sh && (
        mkdir "$folder/jeromq" && cd "$folder/jeromq" &&
            "${built%/*}/python-venv/bin/python" -m pip download --quiet --disable-pip-version-check --retries=0 --no-deps \
                --require-hashes --requirement <(echo "$wheel --hash=$hash") &&
            jar --extract --file ./*.whl run_kotlin_kernel/jars/kotlin-jupyter-kernel-0.19.0-944-all.jar &&
            jar --extract --file run_kotlin_kernel/jars/*.jar org/zeromq zmq com/neilalexander &&
            jar --create --file jeromq.jar org zmq com && mv jeromq.jar "$built/java"
    )
}

# client LANGUAGE ARGUMENT…: what it prints on both streams, and its exit code.
client() {
    local language=$1 code=0
    shift
    case $language in
    node) timeout 60 node "$built/node/submit.mjs" "$@" ;;
    java) timeout 60 java -XX:TieredStopAtLevel=1 -cp "$class_path" Submit "$@" ;;
    *) timeout 60 "$built/$language/submit" "$@" ;;
    esac 2>&1 || code=$?
    echo "exit $code"
}

# finish TASK: waits for its end; the query of it.
finish() {
    "$llts" wait "$1" >/dev/null 2>&1 || :
    "$llts" query "$1" --output wire
}

# hold WHAT QUERY PART…: the query has each part.
hold() {
    local part
    for part in "${@:3}"; do
        [[ $2 == *"$part"* ]] || fail "failed: $1" 'expected:' "$part" 'in:' "$2"
    done
    echo "ok: $1"
}

# leave TOOL: it ends by itself when it is told to, and when its agent is gone, also during a task.
leave() {
    python3 - "$folder/$1" <<'END' || fail "failed: stay/$1: its end"
import os, socket, subprocess, sys

for last in (b'{"type": "stop"}\n', b'{"type": "task", "version": 1, "id": "TASK_1", "round": 0, "task": {"seconds": 1000}}\n'):
    agent, line = socket.socketpair()
    variables = {**os.environ, "LLTS_STAY_FD": str(line.fileno())}
    tool = subprocess.Popen("./run.sh", cwd=sys.argv[1], env=variables, pass_fds=[line.fileno()], stdout=subprocess.PIPE)
    line.close()
    assert b'"ready"' in agent.recv(1000)
    agent.sendall(last)
    if b"task" in last:
        tool.stdout.readline()
        agent.close()
    try:
        assert tool.wait(20) == 0
    finally:
        tool.kill()
END
    echo "ok: stay/$1: its end"
}

clients=() stays=()
exec 9>"$built/lock"
flock 9
build_node
build_go
build_c
build_java
exec 9>&-

# The service, a client with a key of its own, and one whose key is not admitted.
"$llts" init "$LLTS_HOME" --listen 127.0.0.1 >/dev/null 2>&1
"$llts" keys new "$folder/client.key" "$folder/stranger.key" >/dev/null
cp "$folder/client.key.pub" "$LLTS_HOME/keys/authorised/client"
mkdir -p "$LLTS_HOME"/tools/{fails,values}
cat >"$LLTS_HOME/tools/fails/run.sh" <<'END'
#!/bin/sh
echo "no ${PARAM_name}" > report.log
exit 3
END
cat >"$LLTS_HOME/tools/values/run.sh" <<'END'
#!/usr/bin/env python3
import json, os, socket

line = socket.socket(fileno=int(os.environ["LLTS_STAY_FD"]))
line.sendall(b'{"type": "ready", "version": 1}\n')
for message in map(json.loads, line.makefile()):
    if message["type"] != "task":
        break
    done = {"type": "done", "id": message["id"], "round": message["round"], "exit_code": 0, "value": [message["task"]["name"]]}
    line.sendall(json.dumps(done).encode() + b"\n")
END
echo '[stay]' >"$LLTS_HOME/tools/values/tool.toml"
for tool in "${stays[@]}"; do
    cp -r "examples/stay/$tool" "$folder"
    [[ $tool != go ]] || cp "$built/stay/tool" "$folder/go"
    archive=$("$llts" tool pack "$folder/$tool")
done
address=$("$llts" up 1 | awk '$1 == "controller" { print $2 }')
keys=("$LLTS_HOME/keys/server.key.pub" "$folder/client.key")

# A wrong key ends with a sentence after some seconds, in which the other clients are tried.
for language in "${clients[@]}"; do
    client "$language" "$address" "${keys[0]}" "$folder/stranger.key" helloworld name Ada >"$folder/stranger.$language" &
done
for language in "${clients[@]}"; do
    submit=(client "$language" "$address" "${keys[@]}")
    check "$language: a success" $'SUCCEEDED, exit code 0\nhello, Zoë\nexit 0' "$("${submit[@]}" helloworld name Zoë)"
    check "$language: a value" $'SUCCEEDED, exit code 0\n["Ada"]\nexit 0' "$("${submit[@]}" values name Ada)"
    check "$language: a failure" $'FAILED, exit code 3\nno Ada\nexit 1' "$("${submit[@]}" fails name Ada)"
    said=$("${submit[@]}" nothing name Ada)
    check "$language: a refusal" $'refused (-1006): no agent has the tool nothing\nexit 1' "${said/;*$'\n'/$'\n'}"
    check "$language: no key" "cannot read the key $folder/no.key"$'\nexit 1' \
        "$(client "$language" "$address" "${keys[0]}" "$folder/no.key" helloworld name Ada)"
done
wait
for language in "${clients[@]}"; do
    check "$language: a key that is not admitted" \
        $'no answer within 5 s: no controller is there, or it does not admit this key\nexit 1' "$(<"$folder/stranger.$language")"
done

# An agent knows an archive by its times. As clocks of file systems are coarse, it reads one anew that has changed a moment ago, and
# does not find the tool of it running.
until [[ -z ${archive:-} ]] || (($(date +%s) - $(stat -c %Z "$archive") > 3)); do sleep 0.1; done
for tool in "${stays[@]}"; do
    for warm in false true; do
        # A line ends with a line feed alone, whatever else Unicode takes for the end of one.
        task=$(finish "$("$llts" submit "$tool" text=$'hello\u2028you')")
        hold "stay/$tool: a task, warm: $warm" "$task" '"__OUTCOME__":"SUCCEEDED"' "\"__WARM__\":$warm" '\"text\":\"HELLO'
    done
    hold "stay/$tool: its output and value" "$task" '"__STDOUT__":"task 2\n"' '\"count\":2'
    task=$(finish "$("$llts" submit "$tool" text=)")
    hold "stay/$tool: an error" "$task" '"__OUTCOME__":"FAILED"' '"__EXIT_CODE__":1,' 'there is no text' '"__WARM__":true'
    id=$("$llts" submit "$tool" text=hello seconds=1000)
    # Its output shows that it has begun.
    read -r begun < <("$llts" logs --follow "$id")
    "$llts" kill "$id" >/dev/null
    hold "stay/$tool: a kill of ${begun}" "$(finish "$id")" '"__OUTCOME__":"KILLED"' '"__EXIT_CODE__":143,' '"__REPORT_LOG__":"killed"'
    leave "$tool"
    hold "stay/$tool: a new process" "$(finish "$("$llts" submit "$tool" text=hello)")" '"__WARM__":false' '\"count\":1'
done

"$llts" down >/dev/null
for process in /proc/[0-9]*; do
    [[ $(readlink "$process/cwd" || :) != "$folder"/* ]] || fail "failed: a process is left: $(tr '\0' ' ' <"$process/cmdline")"
done
echo "ok: ${#clients[@]} clients and ${#stays[@]} tools that stay"
