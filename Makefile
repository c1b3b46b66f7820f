# Everything below works from a fresh clone with Python 3.11 or newer and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUDO := $(shell test "$$(id -u)" = 0 || echo sudo -n)
APT := $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -qq
apt_install = command -v apt-get >/dev/null && $(SUDO) true 2>/dev/null && \
    { $(APT) update && $(APT) install -y --no-install-recommends $(1); } >/dev/null
PYTEST_ARGS ?=
JOBS ?= 2
NO_TESTS := 5
SOAK_ARGS ?=
BENCH ?= core tuplespace store
BENCH_ARGS ?=
DEMO_ARGS ?=
SCREENSHOTS ?= docs/screenshots

# redis-server may live in the environment, see $(VENV)/.redis.
export PATH := $(CURDIR)/$(BIN):$(PATH)
unexport PYTHONDONTWRITEBYTECODE PYTHONHOME PYTHONPATH
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help test lint format demo bench soak screenshots docs-check lock clean

help:  ## Say what can be made
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r target what; do \
	    printf 'make %-12s %s\n' "$$target" "$$what"; \
	done

test: lint $(VENV)/.redis $(VENV)/.iproute $(VENV)/.chromium  ## Lint, type-check, run the tests, require the coverage
	@echo "test: running the tests under coverage"
	@$(BIN)/coverage erase
	@run() { $(BIN)/coverage run -m pytest "$$@" $(PYTEST_ARGS) || test $$? = $(NO_TESTS); }; \
	run --numprocesses $(JOBS) --dist loadfile -m "not alone"; \
	echo "test: running those that need the machine to themselves"; \
	run -m alone
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

lint: $(VENV)/.installed  ## Check style (ruff) and types (mypy, strict)
	@echo "lint: ruff, then mypy"
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --quiet --check || { echo "run 'make format'"; exit 1; }
	@$(BIN)/mypy

format: $(VENV)/.installed  ## Format the code and sort its imports
	@$(BIN)/ruff check --quiet --select I --fix
	@$(BIN)/ruff format --quiet

demo: $(VENV)/.installed  ## Crawl a synthetic web to its end (DEMO_ARGS="--hosts 200")
	@$(BIN)/gcs demo $(DEMO_ARGS)

bench: $(VENV)/.redis  ## Measure (BENCH="core tuplespace store crawl together handover balance monitor page", BENCH_ARGS)
	@for bench in $(BENCH); do $(BIN)/python -m benchmarks.$$bench $(BENCH_ARGS); done

soak: $(VENV)/.redis $(VENV)/.iproute  ## Kill, stop and cut off workers, servers and gatherers for long (SOAK_ARGS)
	@$(BIN)/python -m tests.soak $(SOAK_ARGS)

screenshots: $(VENV)/.redis $(VENV)/.chromium  ## Take pictures of every view of the web page (SCREENSHOTS=docs/screenshots)
	@$(BIN)/python -m tests.screenshots $(SCREENSHOTS)

docs-check: $(VENV)/.installed  ## Check that what the documents name exists
	@$(BIN)/python docs/check.py

lock:  ## Pin every dependency anew, with hashes
	@echo "lock: resolving the newest versions that pyproject.toml allows into requirements.lock"
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(PYTHON) -m venv "$$dir/venv"; \
	"$$dir/venv/bin/pip" install --quiet uv; \
	"$$dir/venv/bin/uv" pip compile --quiet --universal --upgrade --generate-hashes --no-emit-index-url \
	    --no-emit-find-links --python-version 3.11 --custom-compile-command "make lock" \
	    --extra dev --output-file requirements.lock pyproject.toml

clean:  ## Remove the environment and everything that was made
	rm -rf $(VENV) build dist *.egg-info .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Debian keeps ensurepip, which venv needs, in a package of its own.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "GCS needs Python 3.11 or newer as $(PYTHON); set PYTHON=/path/to/python3."; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	    echo "setup: installing python3-venv with apt"; \
	    { $(call apt_install,python3-venv); } || \
	    { echo "Python's venv is missing and could not be installed; run 'apt-get install python3-venv' as root."; exit 1; }; }
	@echo "setup: creating $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created requirements.lock pyproject.toml
	@echo "setup: installing the pinned dependencies and GCS itself into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --compile --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q cli.py gcs tuplespace
	@touch $@

# Debian's redis-server package is a service around a program that redis-tools ships under another name.
# Only the program is wanted: no service, no account, nothing that starts at boot.
$(VENV)/.redis: $(VENV)/.installed
	@command -v redis-server >/dev/null || { \
	    echo "setup: installing Redis's server program for the tests (redis-tools, with apt)"; \
	    { $(call apt_install,redis-tools) && ln -sf "$$(command -v redis-check-rdb)" $(BIN)/redis-server; } || \
	    { echo "No redis-server was found and none could be installed; put Redis 7 or newer on the PATH."; exit 1; }; }
	@touch $@

# For tests alone, which say that they are skipped where it is missing.
$(VENV)/.iproute: $(VENV)/.installed
	@command -v ip >/dev/null || { \
	    echo "setup: installing ip for tests in which networks are cut (iproute2, with apt)"; \
	    { $(call apt_install,iproute2); } || echo "setup: it could not be installed; those tests are skipped"; }
	@touch $@

# The tests of the web page need a browser; without one they are skipped, and say so. The font has the
# characters of East Asia, which pages of the tests are written in.
$(VENV)/.chromium: $(VENV)/.installed
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	    echo "setup: installing Chromium for the tests of the web page (chromium, with apt)"; \
	    { $(call apt_install,chromium fonts-wqy-microhei); } || echo "No Chromium was found and none could be installed."; }
	@touch $@
