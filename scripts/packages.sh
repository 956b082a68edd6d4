#!/usr/bin/env bash
# Installs the Debian packages that the tests need, where they are missing.
set -euo pipefail

# A C compiler builds SQLite and zstd; libzmq is the peer of many tests; Python with venv and pip runs the conformance suite. TDF needs a Redis, certificates for it, and rsync as one of its sources; prompts work in worktrees of git.
missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v python3 >/dev/null || missing+=(python3)
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
command -v redis-server >/dev/null || missing+=(redis-server)
# The queue in PostgreSQL.
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null || missing+=(postgresql)
command -v openssl >/dev/null || missing+=(openssl)
command -v rsync >/dev/null || missing+=(rsync)
command -v git >/dev/null || missing+=(git)
# The pages of the manual run in a network of their own.
command -v ip >/dev/null || [[ -x /usr/sbin/ip ]] || missing+=(iproute2)
# Tests, and the clients in C and Go (examples/clients), use libzmq; these use jansson, too, and the one in Java uses Gson.
command -v pkg-config >/dev/null || missing+=(pkg-config)
pkg-config --exists libzmq 2>/dev/null || missing+=(libzmq3-dev)
pkg-config --exists jansson 2>/dev/null || missing+=(libjansson-dev)
! command -v javac >/dev/null || [[ -e /usr/share/java/gson.jar ]] || missing+=(libgoogle-gson-java)
# The tests of the page drive a Chromium, and check it with axe-core from the registry of npm.
command -v chromium >/dev/null || missing+=(chromium)
command -v chromedriver >/dev/null || missing+=(chromium-driver)
command -v npm >/dev/null || missing+=(npm)
if ((${#missing[@]})); then
    as_root=()
    ((EUID == 0)) || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq >/dev/null
    # Set behind sudo, which hands no variables on.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "${missing[@]}" >/dev/null
fi
