# The project's commands. `make help` lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo -E)
# Each file runs in one worker, because its tests share a demo and a browser. The order of folders
# keeps a long file with few tests from coming last.
IN_PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder
PIP := $(BIN)/pip --disable-pip-version-check install --quiet
# Compile now: if Python may not write bytecode, it would compile at every start.
INSTALL_HERE := $(PIP) --no-deps --no-build-isolation -e . && $(BIN)/python -m compileall -q src

.PHONY: help run setup browser load-tools test test-all test-fast test-long lint format bench docs clean

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

run: .venv/run ## start the demo: simulated exchange, collector and API on this machine
	@$(BIN)/barograph demo $(ARGS)

setup: .venv/dev .venv-payer/ready browser load-tools ## install what tests, lint and benchmarks need

test: .venv/dev .venv-payer/ready browser lint ## lint, then run the tests of the contract and of every part
	$(BIN)/pytest $(IN_PARALLEL) -m "not long and not thorough"

test-all: .venv/dev .venv-payer/ready browser load-tools ## run the slower tests: client generators, conformance, benchmarks
	$(BIN)/pytest $(IN_PARALLEL) -m "thorough and not long"

test-fast: .venv/dev ## run the unit and contract-list tests, in less than a minute
	$(BIN)/pytest $(IN_PARALLEL) -m "not long and not thorough and not e2e" tests/unit tests/contract

test-long: .venv/dev .venv-payer/ready ## run the crash, fuzz and soak tests at full length
	$(BIN)/pytest -m long

APT_INSTALL := $(AS_ROOT) apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive $(AS_ROOT) apt-get install -y -qq --no-install-recommends

browser: ## install Chromium from Debian for the page tests, if it is missing
	@command -v chromium-headless-shell > /dev/null || { \
		$(APT_INSTALL) chromium-headless-shell fonts-liberation; }

load-tools: ## install wrk and nginx from Debian for the benchmarks, if they are missing
	@command -v wrk > /dev/null && test -x /usr/sbin/nginx || { $(APT_INSTALL) wrk nginx-light; }

lint: .venv/dev ## check style, types and import layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/dev ## format the code and apply automatic lint fixes
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: .venv/dev load-tools ## run the benchmarks and print their table
	$(BIN)/python -m benchmarks

docs: .venv/dev ## regenerate the generated pages in docs/
	$(BIN)/python docs/generate.py

clean: ## remove everything that was installed or generated here
	rm -rf .venv .venv-payer .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache artefacts data
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/run: requirements.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --require-hashes -r requirements.txt
	$(INSTALL_HERE)
	@touch $@

.venv/dev: requirements-dev.txt requirements.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --require-hashes -r requirements-dev.txt
	$(INSTALL_HERE)
	@touch $@ .venv/run

# The payer's packages need other versions than ours.
.venv-payer/ready: requirements-payer.txt
	test -x .venv-payer/bin/python || $(PYTHON) -m venv .venv-payer
	.venv-payer/bin/pip --disable-pip-version-check install --quiet --require-hashes -r $<
	@touch $@
