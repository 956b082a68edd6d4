#!/bin/sh
# Makes target/python-client-venv with what the tests and checks of the Python client need. Several may call it at once.
set -eu
cd "$(dirname "$0")"
venv=../../target/python-client-venv
mkdir -p ../../target
exec 9>../../target/python-client-venv.lock
flock 9

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
# The copy says what is installed: no network access as long as the requirements stay the same.
cmp -s requirements.txt "$venv/requirements.txt" || {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement requirements.txt
    cp requirements.txt "$venv/requirements.txt"
}
