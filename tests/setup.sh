#!/bin/sh
# usage: tests/setup.sh PYTHON VENV      make the tests' environment, or bring it up to date
set -eu
python=$1 venv=$2
cd "$(dirname "$0")/.."
if [ ! -x "$venv/bin/python" ]; then
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        { echo "tests need Python 3.11 or newer; make test PYTHON=python3.12 names another" >&2; exit 1; }
    "$python" -m venv "$venv"
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade '.[test]'
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall . ./tests/fixtures/toy
