# Plain `make` lists the targets. Each does its own set-up on a fresh clone.
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
KERNELS := $(wildcard src/stepscope/_core/*.py)
PIP := $(PY) -m pip install -qq --disable-pip-version-check $(STEPSCOPE_PIP_ARGS)
WORKERS ?= 2
# `oldest` installs the oldest versions of packages that pyproject.toml allows.
VERSIONS ?= run
# The programs that tests start, some hundreds, need not compile everything anew.
unexport PYTHONDONTWRITEBYTECODE
# What the tests of a file share, such as a recording, is made once. Each worker has a
# processor, so that threads of Polars would only wait for each other.
PYTEST := POLARS_MAX_THREADS=1 $(PY) -m pytest -n $(WORKERS) --dist loadfile
# For tests that take minutes: none is taken for one that hangs.
PATIENT := -o timeout=0 -o faulthandler_timeout=0
# Folder of recorded profiles that are not part of the repository; set it to your own.
# Tests and benchmarks read what is there.
PROFILES ?= ../shared/profiles
PAGE := src/stepscope/serve/static/build.json
PAGE_SOURCES := $(shell find web -type f -not -path '*/node_modules/*')

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 20

demo: $(VENV)/.ready ## record a small training loop here; explain it, and one of an H100
	@$(VENV)/bin/stepscope demo
	@$(MAKE) -s web || true

SET_UP := TERM=dumb $(MAKE) -s --jobs=4 PAGE_AFTER=$(VENV)/.ready-test set-up
# Many of these tests wait, for programs and for the page: with one worker more, another
# one computes meanwhile.
WITH_ALL := STEPSCOPE_FRAMEWORKS=required STEPSCOPE_BROWSER=required \
	$(PYTEST) -n $$(($(WORKERS) + 1)) --hypothesis-profile brief

test: $(VENV)/.made ## the tests, frameworks and browser included; of long sweeps a few cases
	@$(SET_UP)
	$(WITH_ALL) -m "not integration"

test-integrations: $(VENV)/.made ## the other tests: with trackers, launchers, peers; all of each sweep
	@$(SET_UP)
	@$(MAKE) -s $(VENV)/.ready-docs $(VENV)/.ready-dist
	$(WITH_ALL) -m integration

# All that `make test` needs, side by side: lines of several parts alternate.
set-up: $(VENV)/.ready-test $(PAGE) chromium frameworks

test-core: $(VENV)/.ready-test ## those without frameworks and browser; of long sweeps a few cases
	$(PYTEST) --hypothesis-profile brief -m "not framework and not slow and not browser"

test-oldest: ## test-core with the oldest versions of packages that pyproject.toml allows
	@PIP_CONSTRAINT=$(abspath build/oldest/requirements.txt) \
		$(MAKE) -s VENV=build/oldest VERSIONS=oldest test-core

test-python: $(VENV)/.ready-test $(PAGE) ## test-core and test-wheel on each Python of this machine
	@$(PY) build_tools/interpreters.py | while read -r version python; do \
		echo "Python $$version: $$python"; \
		$(MAKE) -s VENV=build/python$$version PYTHON=$$python test-core test-wheel || exit 1; \
	done

test-wheel: $(VENV)/.ready-dist $(PAGE) ## build a wheel, and run each command from it without compiler, Node.js, network
	$(PYTEST) -m "not framework" tests/test_dist.py

test-profiles: $(VENV)/.ready-test $(PAGE) chromium ## the tests on profiles of others, which PROFILES=DIR holds
	@[ -d "$(PROFILES)" ] || { echo "no folder $(PROFILES): make test-profiles PROFILES=DIR" >&2; exit 1; }
	STEPSCOPE_PROFILES="$(abspath $(PROFILES))" STEPSCOPE_BROWSER=required $(PYTEST) -m profiles

test-thorough: $(VENV)/.ready-test frameworks ## more cases of what `make test` tries: faults, damages (some minutes)
	STEPSCOPE_FRAMEWORKS=required $(PYTEST) $(PATIENT) --thorough -m thorough

test-web: $(VENV)/.ready-test $(PAGE) chromium ## the tests of the page, in Chromium
	STEPSCOPE_BROWSER=required $(PYTEST) tests/web tests/browser

check: $(VENV)/.ready-test ## format, lint, types, layers, docs, sizes: read-only
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(PY) -m pytest -q tests/test_layers.py tests/test_exports.py tests/test_sizes.py tests/test_docs.py

fix: $(VENV)/.ready-test ## apply what formatter and linter can apply
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .
	$(PY) build_tools/table_docs.py
	$(PY) build_tools/rule_list.py
	$(PY) build_tools/knob_list.py
	$(PY) build_tools/rule_pages.py
	$(PY) build_tools/transcripts.py
	$(PY) build_tools/web_sources.py

bench: export STEPSCOPE_PROFILES = $(abspath $(PROFILES))
bench: $(VENV)/.ready-test ## measure against XProf and against C; prints tables
	$(PY) benchmarks/decode.py
	$(PY) benchmarks/derive.py
	$(PY) benchmarks/tiles.py
	$(PY) benchmarks/linear.py
	$(PY) benchmarks/rules.py
	$(PY) benchmarks/nsight.py
	$(PY) benchmarks/small.py
	$(PY) benchmarks/peer.py
	$(PY) benchmarks/serve.py
	$(PY) benchmarks/timeline_page.py

experiments: $(VENV)/.ready-test frameworks ## plant faults in real programs, and score what is said of them (ten minutes)
	$(PY) benchmarks/experiments.py --write docs/findings.md

causes: $(VENV)/.ready-test frameworks ## draw programs with causes from laws, and score what is said of them; CAUSES="--seed 2 --laws second" (ten minutes)
	$(PY) benchmarks/causes.py --folder build/causes $(CAUSES)

gains: $(VENV)/.ready-test frameworks ## carry out what advice names, and compare the steps with the predictions; GAINS="--seed 2" (three minutes)
	$(PY) benchmarks/gains.py $(GAINS)

cut-evidence: $(VENV)/.ready-test ## cut evidence out of stored recordings, and see whether rules say so (two minutes)
	$(PY) benchmarks/cut_evidence.py --cases

frameworks: $(VENV)/.made ## one cached virtual environment per framework
	$(PY) build_tools/framework_venv.py \
		tensorflow jax torch keras_jax keras_torch jax_tfdata xprof trackers trainers notebook

gpu-check: $(VENV)/.ready-test ## on a machine with a GPU: record, and compare with its frameworks
	$(PY) tests/gpu/gpu_check.py $(GPU_CHECK)

kill-loop: $(VENV)/.ready-test ## kill a recording program some hundred times (some minutes)
	$(PY) tests/capture/kill_loop.py --kills 300

fuzz: $(VENV)/.ready-test ## a million mutated messages, 20,000 files for each other reader (an hour)
	$(PY) tests/fuzz/fuzz_decoder.py --cases 1000000
	$(PY) tests/fuzz/fuzz_readers.py
	$(PYTEST) $(PATIENT) --thorough --hypothesis-profile thorough \
		$$(grep -rl --include='test_*.py' '^@given' tests) -k "not framework"

mutants: $(VENV)/.ready-test ## change 200 places of the code; at least 85 % have to fail a test (half an hour)
	$(PY) build_tools/mutants.py $(MUTANTS)

chromium: # Debian's, for the tests in a browser
	@sh build_tools/chromium.sh

web: $(PAGE) ## build the page

docs: $(VENV)/.ready-docs ## build the site of the documentation: build/site
	@$(PY) build_tools/docs_site.py

core: $(VENV)/.ready ## compile the kernels in place
	@$(PY) setup.py -q build_ext --inplace

dist: $(VENV)/.ready-dist $(PAGE) ## make a source archive, and a wheel for each Python of this machine
	@$(PY) build_tools/dist.py

clean: ## remove what was built
	rm -rf build dist .venv src/*.egg-info src/stepscope/_core/*.so

$(VENV)/.made:
	@PYTHON=$(PYTHON) sh build_tools/environment.sh $(VENV)

$(VENV)/.ready: pyproject.toml setup.py build_tools/bootstrap.sh build_tools/compiled_kernels.py $(KERNELS) | $(VENV)/.made
	@sh build_tools/bootstrap.sh $(VENV) $(VERSIONS)

$(VENV)/.ready-test: pyproject.toml build_tools/requirements.py $(VENV)/.ready
	@echo "installing what the tests need"
	@$(PY) build_tools/requirements.py test | xargs $(PIP) --no-compile
	@touch $@

$(VENV)/.ready-dist: pyproject.toml build_tools/requirements.py $(VENV)/.ready-test
	@$(PY) build_tools/requirements.py dist | xargs $(PIP)
	@touch $@

$(VENV)/.ready-docs: pyproject.toml build_tools/requirements.py | $(VENV)/.made
	@echo "installing what builds the site"
	@$(PY) build_tools/requirements.py docs | xargs $(PIP)
	@touch $@

# PAGE_AFTER: two pips at once would not see what the other one installs.
$(PAGE): $(PAGE_SOURCES) build_tools/web_page.py | $(VENV)/.ready $(PAGE_AFTER)
	@$(PY) build_tools/requirements.py page | xargs -r $(PIP)
	@echo "building the page"
	@$(PY) build_tools/web_page.py

.PHONY: web docs chromium help demo test test-integrations set-up test-core test-oldest test-python test-wheel test-profiles test-thorough test-web check fix bench experiments causes gains cut-evidence frameworks gpu-check kill-loop fuzz mutants core dist clean
.DEFAULT_GOAL := help
