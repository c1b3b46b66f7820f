# Everything below works from a fresh clone with Python 3.11 or newer and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUDO := $(shell test "$$(id -u)" = 0 || echo sudo -n)
APT := $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -qq
apt_install = command -v apt-get >/dev/null && $(SUDO) true 2>/dev/null && \
    { $(APT) update && $(APT) install -y --no-install-recommends $(1); } >/dev/null
PYTEST := $(BIN)/python -m pytest
PYTEST_ARGS ?=
# Many tests wait much of the time: half as many again as there are cores keep these busy.
JOBS ?= $(shell echo $$(((3 * $$(nproc) + 1) / 2)))
# Stores wait for the disk again and again, and no test needs a real one: memory will do where there is enough
# and programs may be run from there.
TEMPORARY := $(or $(shell grep -q '/dev/shm [^ ]* [^ ]*noexec' /proc/mounts || \
    df --output=avail /dev/shm 2>/dev/null | awk 'END { if ($$1 > 8000000) print "/dev/shm" }'),$(TMPDIR),/tmp)
# What pytest ends with when tests have failed, and when there were none.
FAILED := 1
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
.PHONY: help test coverage lint format demo bench soak screenshots docs-check lock clean

help:  ## Say what can be made
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r target what; do \
	    printf 'make %-12s %s\n' "$$target" "$$what"; \
	done

test: lint $(VENV)/.redis $(VENV)/.iproute $(VENV)/.systemd $(VENV)/.chromium $(VENV)/.spark  ## Lint, type-check, run the tests (JOBS=3 at a time)
	@echo "test: running the tests"
	@export TMPDIR=$(TEMPORARY); \
	run() { $(PYTEST) "$$@" $(PYTEST_ARGS) || { local code=$$?; test $$code = $(NO_TESTS) || return $$code; }; }; \
	again() { \
	    test $$? = $(FAILED); \
	    echo "test: SOME HAVE FAILED; running these once more, one after the other"; \
	    run --last-failed "$$@"; }; \
	run --numprocesses $(JOBS) --dist loadfile -m "not alone" || again -m "not alone"; \
	echo "test: running those that need the machine to themselves"; \
	run -m alone || again -m alone

# Not with every test: what is counted runs half as fast.
coverage: $(VENV)/.installed  ## Run the tests and require that they reach nearly every line and branch
	@$(BIN)/coverage erase
	@$(MAKE) --no-print-directory test PYTEST="$(BIN)/coverage run -m pytest"
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

bench: $(VENV)/.redis  ## Measure (BENCH="core tuplespace store rank crawl together handover balance monitor page search profiles", BENCH_ARGS)
	@for bench in $(BENCH); do $(BIN)/python -m benchmarks.$$bench $(BENCH_ARGS); done

soak: $(VENV)/.redis $(VENV)/.iproute  ## Kill, stop and cut off workers, servers and gatherers for long (SOAK_ARGS)
	@$(BIN)/python -m tests.soak $(SOAK_ARGS)

screenshots: $(VENV)/.redis $(VENV)/.chromium  ## Take pictures of every view of the web page (SCREENSHOTS=docs/screenshots)
	@$(BIN)/python -m tests.screenshots $(SCREENSHOTS)

docs-check: $(VENV)/.installed  ## Check that what the documents name exists
	@$(BIN)/python docs/check.py

# What Spark needs is in a file of its own: it is twice as large as all the rest.
lock:  ## Pin every dependency anew, with hashes
	@echo "lock: resolving the newest versions that pyproject.toml allows into requirements.lock and requirements-spark.lock"
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(PYTHON) -m venv "$$dir/venv"; \
	"$$dir/venv/bin/pip" install --quiet uv; \
	compile() { "$$dir/venv/bin/uv" pip compile --quiet --universal --upgrade --generate-hashes --no-emit-index-url \
	    --no-emit-find-links --python-version 3.11 --custom-compile-command "make lock" "$$@"; }; \
	compile --extra dev --output-file requirements.lock pyproject.toml; \
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["spark"], sep="\n")' | \
	    compile --output-file requirements-spark.lock -

clean:  ## Remove the environment and everything that was made
	rm -rf $(VENV) build dist *.egg-info gcs/native/*.so .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis
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

# Without them GCS is installed all the same, and does in Python what is compiled elsewhere; `gcs doctor` says so.
$(VENV)/.compiler: $(VENV)/.created
	@{ command -v gcc >/dev/null && \
	    test -f "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h"; } || { \
	    echo "setup: installing a C compiler and Python's headers (gcc, libc6-dev, python3-dev, with apt)"; \
	    { $(call apt_install,gcc libc6-dev python3-dev); } || \
	    echo "setup: they could not be installed; GCS does without its compiled part"; }
	@touch $@

$(VENV)/.installed: $(VENV)/.compiler requirements.lock pyproject.toml $(wildcard gcs/native/*.[ch])
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

# The units are tested under a systemd of their own, in namespaces; where that cannot be, a socket stands for it.
$(VENV)/.systemd: $(VENV)/.installed
	@command -v systemd-nspawn >/dev/null || { \
	    echo "setup: installing systemd for tests of the units (systemd, systemd-container, with apt)"; \
	    { $(call apt_install,systemd systemd-container); } || echo "setup: it could not be installed; those tests are skipped"; }
	@touch $@

# Apache Spark, for tests and benchmarks in which it ranks what DuckDB has ranked; without Java they are skipped, and say so.
$(VENV)/.spark: $(VENV)/.installed requirements-spark.lock
	@command -v java >/dev/null || { \
	    echo "setup: installing Java for the tests on Apache Spark (default-jre-headless, with apt)"; \
	    { $(call apt_install,default-jre-headless); } || \
	    echo "setup: NO JAVA was found and none could be installed: THE TESTS ON APACHE SPARK ARE SKIPPED"; }
	@echo "setup: installing Apache Spark into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --require-hashes -r requirements-spark.lock
	@touch $@

# The tests of the web page need a browser; without one they are skipped, and say so. The font has the
# characters of East Asia, which pages of the tests are written in.
$(VENV)/.chromium: $(VENV)/.installed
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	    echo "setup: installing Chromium for the tests of the web page (chromium, with apt)"; \
	    { $(call apt_install,chromium fonts-wqy-microhei); } || echo "No Chromium was found and none could be installed."; }
	@touch $@
