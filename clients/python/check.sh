#!/bin/sh
# Types, lints and format of the Python client, with the pinned tools.
set -eu
cd "$(dirname "$0")"
venv=../../target/python-client-venv
./venv.sh
"$venv/bin/mypy"
"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check .
