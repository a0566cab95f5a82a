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
# They use the whole machine.
ALONE := tests/e2e/test_cluster.py tests/e2e/test_images.py
UV := .uv/bin/uv
# Without pip in it, an environment is made in a tenth of a second.
new_environment = test -x $(1)/bin/python || $(PYTHON) -m venv --without-pip $(1)
# The lock files are complete, so uv resolves nothing.
LOCK := $(UV) pip compile --quiet --universal --generate-hashes --no-header --no-annotate --strip-extras $(UPGRADE)
LOCKED := --no-deps --require-hashes -r
# flit-core, which builds our packages, is beside uv. The import compiles the modules. Otherwise several
# processes would compile them at the first start, and at each start where Python writes no bytecode.
install_here = PYTHONPATH=$(CURDIR)/.uv $(call uv_install,.venv) --no-deps --no-build-isolation $(2:%=-e %) && \
	$(BIN)/python -c 'import barograph.cli.serve, barograph.collector.app, barograph.web.app, $(1)'
uv_install = $(UV) pip install --quiet --python $(1)

.PHONY: help run install setup environment browser load-tools test test-all test-fast test-long test-servers $(PARTS:%=test-%) lint format bench docs pictures locks clean

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

run: .venv/run ## start the demo: simulated exchange, collector and API on this machine
	@$(BIN)/barograph demo $(ARGS)

install: .venv/live ## install what a host needs: the service without the demo

setup: environment load-tools .venv-witness/ready .venv/base.tar ## install what tests, lint and benchmarks need

test: environment ## lint, and the tests for the contract and every part of the product
	@echo "$(AT_ONCE) parts run at once; each is shown when it is finished"
	@+$(MAKE) --no-print-directory --jobs=$(AT_ONCE) --output-sync=target --keep-going \
		$(PARTS:%=test-%) lint

test-all: environment load-tools .venv-witness/ready .venv/base.tar ## the slower suites: browsers, generators, conformance, benchmarks
	$(BIN)/pytest $(SHARED) -m "thorough and not long" $(ALONE:%=--ignore=%)
	@# Not captured, because they print recovery times and sizes of images.
	$(BIN)/pytest -p no:schemathesis -s $(ALONE)
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

# Tests build images on it with podman, because they can pull none.
.venv/base.tar: | .venv/dev
	$(APT_INSTALL) mmdebstrap podman runc
	$(AS_ROOT) mmdebstrap --quiet --variant=essential --include=ca-certificates,python3-venv,tzdata bookworm $@

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

pictures: .venv/dev browser ## take the pictures of README.md and docs/site.md again, from a demo on port 8080
	$(BIN)/python -m docs.pictures

locks: $(UV) ## pin new versions in every requirements file; UPGRADE=--upgrade takes the newest ones
	for name in requirements-build requirements requirements-demo requirements-dev requirements-payer; do \
		$(LOCK) --python-version 3.11 $$name.in -o $$name.txt || exit; done
	$(LOCK) --python-version 3.12 requirements-witness.in -o requirements-witness.txt

clean: ## remove everything that was installed or generated here
	rm -rf .uv .venv .venv-payer .venv-witness .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache artefacts data dist
	find . -name __pycache__ -prune -exec rm -rf {} +

# Its own folder, so that every environment can use it.
$(UV): requirements-build.txt
	@echo "installing uv, which installs everything else"
	@$(PYTHON) -m pip --disable-pip-version-check install --quiet --no-compile --root-user-action ignore --target .uv --upgrade \
		--require-hashes -r $<
	@touch $@

.venv/live: requirements.txt pyproject.toml client/pyproject.toml | $(UV)
	@echo "installing the service"
	@$(call new_environment,.venv)
	@$(call uv_install,.venv) $(LOCKED) requirements.txt
	@$(call install_here,barograph.cli.collect,client .)
	@touch $@

.venv/run: requirements-demo.txt pyproject.toml client/pyproject.toml demo/pyproject.toml | $(UV)
	@echo "installing the service and its demo"
	@$(call new_environment,.venv)
	@$(call uv_install,.venv) $(LOCKED) requirements-demo.txt
	@$(call install_here,barograph_demo.run,client . demo)
	@touch $@ .venv/live

.venv/dev: requirements-dev.txt pyproject.toml client/pyproject.toml demo/pyproject.toml | $(UV)
	@echo "installing what tests, lint and benchmarks need"
	@$(call new_environment,.venv)
	@$(call uv_install,.venv) $(LOCKED) requirements-dev.txt
	@$(call install_here,barograph_demo.run,client . demo)
	@touch $@ .venv/run .venv/live

# The payer's packages need other versions than ours.
.venv-payer/ready: requirements-payer.txt | $(UV)
	@$(call new_environment,.venv-payer)
	@$(call uv_install,.venv-payer) $(LOCKED) requirements-payer.txt
	@touch $@

# The witness says that it needs Python 3.12, but it works on 3.11. uv can't ignore what it says.
.venv-witness/ready: requirements-witness.txt | $(UV)
	@$(call new_environment,.venv-witness)
	@$(PYTHON) -m pip --disable-pip-version-check --python .venv-witness install --quiet \
		--root-user-action ignore --ignore-requires-python $(LOCKED) requirements-witness.txt
	@touch $@

.PHONY: release test-pythons
release: .venv/dev ## build and check the packages of a release from the last commit, into dist/
	$(BIN)/python tools/release.py

test-pythons: .venv/dev ## the unit tests on Python 3.13 and 3.14, with interpreters from Debian, and the types for 3.12
	$(BIN)/mypy --python-version 3.12 src client/src demo/src
	@command -v mmdebstrap > /dev/null || { $(APT_INSTALL) mmdebstrap; }
	$(AS_ROOT) tools/pythons.sh
