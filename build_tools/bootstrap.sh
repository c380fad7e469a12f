#!/bin/sh
# Install stepscope into the virtual environment in $1, compiled in place, and nothing
# that only tests need. With a second argument `oldest`, install the oldest versions that
# pyproject.toml allows.
set -eu
venv=$1
versions=${2:-run}

pip_install() {
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check ${STEPSCOPE_PIP_ARGS:-} "$@"
}
echo "installing what stepscope needs"
"$venv/bin/python" build_tools/requirements.py "$versions" >"$venv/requirements.txt"
pip_install -r "$venv/requirements.txt"
# Here, where its progress is seen; the install then finds the kernels compiled.
"$venv/bin/python" setup.py -q build_ext --inplace
pip_install --no-build-isolation --no-deps -e .
touch "$venv/.ready"
