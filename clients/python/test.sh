#!/bin/sh
# Builds the Python client as sdist and wheel, installs the wheel into an empty environment, and tests it there against
# target/debug/llts (cargo build), or against the program that SERVICE_BINARY names.
#
#   clients/python/test.sh [pytest arguments; paths start in this folder]
set -eu

case ${SERVICE_BINARY:-/} in /*) ;; *) export SERVICE_BINARY="$PWD/$SERVICE_BINARY" ;; esac
cd "$(dirname "$0")"
venv=$(cd ../../ && pwd)/target/python-client-venv
./venv.sh

# The wheel is built from the sdist, so that nothing is missing there. The backend is the pinned one: no network access. Both stay until
# a source changes. Several may call this at once.
wheel=../../target/python-client-wheel
exec 9>"$wheel.lock"
flock 9
sources=$(find . -name __pycache__ -prune -o -type f ! -path "./.*" -print | sort | xargs sha256sum)
[ "$(cat "$wheel/sources" 2>/dev/null)" = "$sources" ] || {
    rm -rf "$wheel"
    mkdir "$wheel"
    "$venv/bin/python" -m build --no-isolation --outdir "$wheel" . >"$wheel/build.log" 2>&1 || { cat "$wheel/build.log"; exit 1; }
    python3 -m venv "$wheel/venv"
    # What the package needs is taken from the environment of the tests, and the package itself from the wheel alone.
    "$wheel/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$wheel"/*.whl
    site() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
    site "$venv" >"$(site "$wheel/venv")/tests.pth"
    echo "$sources" >"$wheel/sources"
}
flock -u 9

# The folders have short names: the path of a socket has at most 107 bytes.
folder=$(mktemp -d /tmp/llts.XXXXXX)
trap 'rm -rf "$folder"' EXIT
"$wheel/venv/bin/python" -m pytest -q -p no:cacheprovider --basetemp "$folder/t" "$@"
