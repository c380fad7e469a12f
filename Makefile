# Plain `make` lists the targets. Each does its own set-up on a fresh clone.
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
KERNELS := $(wildcard src/stepscope/_core/*.py)
WORKERS ?= 2

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

demo: $(VENV)/.ready ## explain a real TensorFlow profile
	@$(VENV)/bin/stepscope demo

test: $(VENV)/.ready frameworks ## every test, frameworks included
	STEPSCOPE_FRAMEWORKS=required $(PY) -m pytest -n $(WORKERS)

test-core: $(VENV)/.ready ## the tests that need no framework (under three minutes)
	$(PY) -m pytest -n $(WORKERS) -m "not framework and not slow"

check: $(VENV)/.ready ## format, lint, types, layers, docs, sizes: read-only
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(PY) -m pytest -q tests/test_layers.py tests/test_exports.py tests/test_sizes.py tests/test_docs.py

fix: $(VENV)/.ready ## apply what formatter and linter can apply
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .
	$(PY) build_tools/table_docs.py

bench: $(VENV)/.ready ## measure against XProf and against C; prints tables
	$(PY) benchmarks/decode.py
	$(PY) benchmarks/derive.py
	$(PY) benchmarks/peer.py

frameworks: $(VENV)/.ready ## one cached virtual environment per framework
	$(PY) build_tools/framework_venv.py tensorflow jax xprof

fuzz: $(VENV)/.ready ## a million mutated inputs over the decoder (some minutes)
	$(PY) tests/fuzz/fuzz_decoder.py --cases 1000000

core: $(VENV)/.ready ## compile the kernels in place
	@$(PY) setup.py -q build_ext --inplace

clean: ## remove what was built
	rm -rf build dist .venv src/*.egg-info src/stepscope/_core/*.so

$(VENV)/.ready: pyproject.toml setup.py build_tools/bootstrap.sh $(KERNELS)
	@PYTHON=$(PYTHON) sh build_tools/bootstrap.sh $(VENV)

.PHONY: help demo test test-core check fix bench frameworks fuzz core clean
.DEFAULT_GOAL := help
