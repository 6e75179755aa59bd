# Every target sets up .venv first; requirements: Python 3.11 or newer and a package index.
#   make demo     calibrate, identify, validate and balance a virtual robot; writes report.html
#   make test     run lint, type checks and tests, including those of the report in a browser
#   make docs     build the documentation site in site/
#   make install  set up the environment only
# A second run installs nothing: .venv has a stamp with a hash of its inputs.

.DEFAULT_GOAL := demo
SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := robots,lab,ros,plot,report,dev
WORKERS ?= auto

# Use the first Python that is new enough; set PYTHON to override.
PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11 python; do \
	if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$candidate; break; fi; done)
HASH = $(shell $(PYTHON) -c 'import hashlib, sys; \
	print(hashlib.sha256(b"".join(open(f, "rb").read() for f in sys.argv[1:]) + sys.version.encode()).hexdigest()[:16])' \
	requirements.lock pyproject.toml Makefile)
STAMP = $(VENV)/stamp-$(HASH)

.PHONY: demo test docs install browser lint types unit lock hooks clean

demo: install
	@$(BIN)/steelyard demo

test: lint types unit

docs: install
	@$(BIN)/mkdocs build --quiet --strict
	@echo "site/index.html"

install:
	@test -n "$(PYTHON)" || { echo "Steelyard needs Python 3.11 or newer; install it, or set PYTHON=/path/to/python3" >&2; exit 1; }
	@test -e "$(STAMP)" || { \
		echo "Installing into $(VENV) (a few minutes, once) ..." && \
		rm -f $(VENV)/stamp-* && $(PYTHON) -m venv $(VENV) && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable ".[$(EXTRAS)]" && \
		touch "$(STAMP)"; }

lint: install
	@$(BIN)/ruff format --check --quiet . || { $(BIN)/ruff format --diff .; exit 1; }
	@$(BIN)/ruff check .

types: install
	@$(BIN)/mypy

# Reports are tested in a real browser. If there is none and it cannot be installed, those tests are skipped, with a reason.
browser:
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1 && \
		echo "Installing chromium for the report tests ..." && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null; } || \
		echo "chromium not found and cannot be installed: browser tests will be skipped" >&2

# Most files of tests stay in one process, so that trials and browsers that their tests share are made once.
unit: install browser
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal

# Resolve all extras again for every supported Python, without writing an index address.
lock:
	@$(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/pip install --quiet --disable-pip-version-check uv
	@$(VENV)-lock/bin/uv pip compile --quiet --universal --all-extras --upgrade --python-version 3.11 --no-header \
		--no-annotate --no-emit-index-url pyproject.toml --output-file requirements.lock
	@rm -rf $(VENV)-lock

hooks: install
	@$(BIN)/pre-commit install

clean:
	rm -rf $(VENV) site .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
