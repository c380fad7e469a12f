#!/bin/sh
# Make the virtual environment in $1, and see that Python and a compiler are there.
set -eu
venv=$1
python=${PYTHON:-python3}

need() { # what, Debian package
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing $2 (for $1)"
        apt-get install -y -q "$2" >/dev/null || { apt-get update -q >/dev/null && apt-get install -y -q "$2" >/dev/null; }
    else
        echo "stepscope needs $1: install it with 'apt-get install $2' and run make again" >&2
        exit 1
    fi
}

command -v "$python" >/dev/null || need "Python 3.11 or newer" python3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "stepscope needs Python 3.11 or newer; this is $("$python" -V). Name another with 'make PYTHON=…'" >&2
    exit 1
}
"$python" -c 'import ensurepip, venv' 2>/dev/null || need "Python's venv module" python3-venv
# Without a compiler stepscope still runs, more than ten times slower
# (docs/benchmarks.md, "Without a compiler").
wish() {
    if [ "$(id -u)" = 0 ]; then need "$1" "$2"; else
        echo "no $1: the kernels will run uncompiled, and a report of a large profile takes more than ten times as long (apt-get install $2)" >&2
    fi
}
command -v "${CC:-cc}" >/dev/null || wish "a C compiler" gcc
"$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
    wish "Python's headers" python3-dev

[ -x "$venv/bin/python" ] || {
    echo "making $venv"
    "$python" -m venv "$venv"
    # The pip that comes with Python 3.11 takes four times as long to choose among
    # thousands of versions; where there is no newer one it will do.
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check \
        ${STEPSCOPE_PIP_ARGS:-} --upgrade pip 2>/dev/null || true
}
touch "$venv/.made"
