# Latentboard: every target makes what it needs, the virtual environment .venv included.
#
#   make app         open the dashboard
#   make test        the quick tests: every model, page and promise, and a walk in a real browser
#   make test-all    all tests; gets a browser for its tests where it can, as make test does
#   make lint        ruff, mypy and lint-js
#   make lint-js     types and rules of the JavaScript, where npm is there
#   make format      put the source into the house's format
#   make bench       the papers' tables, the speed figures and the page timings
#   make docs        the documentation site, into build/site
#   make pictures    the pictures of the pages, into assets
#   make campaign-files  2,000 damaged files, each read as a table or refused with a sentence
#   make campaign-kills  100 kills and 50 cancels on this machine; nothing may be lost
#   make campaign-cluster  128 kills on a Ray cluster of this machine; nothing may be lost
#   make campaign-walk  random use of the pages in a browser: 200 steps from each of 5 seeds
#   make clean       remove .venv, node_modules and everything that the tools left behind

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help app test test-all test-rest lint lint-js format bench docs pictures campaign-files campaign-kills \
	campaign-cluster campaign-walk clean

VENV   := .venv
PYTHON := $(VENV)/bin/python
PIP    := $(PYTHON) -m pip --disable-pip-version-check -qq
TORCH  := $(shell sed -n '/^torch==/p' constraints.txt)

# Test processes side by side: some tests wait for processes of their own. Of the browser tests,
# those of one file run one after the other.
WORKERS         ?= 3
BROWSER_WORKERS ?= 2

# The interpreters tried, best known first; PYTHON3=/path/to/python chooses another.
PYTHON3 ?= python3.13 python3.12 python3.11 python3 python

help:
	@sed -n 's/^#   //p' Makefile

# A .venv that is there and works is used as it is.
$(VENV)/.python:
	@set -e; \
	if $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  $(PYTHON) --version > $@; exit 0; \
	fi; \
	for candidate in $(PYTHON3); do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "Creating $(VENV) with $$("$$candidate" --version)"; \
	    "$$candidate" -m venv --clear $(VENV) || { \
	      echo "That Python cannot create a virtual environment. On Debian and Ubuntu:" \
	        "sudo apt-get install python3-venv. Then run make again." >&2; exit 1; }; \
	    $(PYTHON) --version > $@; exit 0; \
	  fi; \
	done; \
	echo "No Python 3.11 or newer was found (tried: $(PYTHON3)). Install one, or name it:" \
	  "make PYTHON3=/path/to/python3" >&2; exit 1

# torch goes first and by its exact version: where a small build for the CPU is at hand, that one
# is taken; where not, the usual one.
$(VENV)/.app: pyproject.toml constraints.txt $(VENV)/.python
	@echo "Installing Latentboard (the first time takes a few minutes)"
	@$(PIP) install "$(TORCH)"
	@$(PIP) install -c constraints.txt -e ".[formats,video]"
	@touch $@

$(VENV)/.dev: $(VENV)/.app
	@echo "Installing what the tests need"
	@$(PIP) install -c constraints.txt -e ".[dev,formats,video]"
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	@echo "Installing what the documentation is built with"
	@$(PIP) install -c constraints.txt -e ".[dev,docs,formats,video]"
	@touch $@

app: $(VENV)/.app
	@$(PYTHON) -m app

# $(call run_tests,SELECTION): the browser tests after all others. Both halves always run; the target
# fails where one of them does. A browser test that fails beside another one runs again alone: on two
# cores a page may take longer than any patience.
define run_tests
@$(PYTHON) -m tests.e2e.browser
@status=0; \
$(PYTHON) -m pytest --ignore=tests/e2e -m $(1) -n $(WORKERS) --dist worksteal || status=1; \
$(PYTHON) -m pytest tests/e2e -m $(1) -n $(BROWSER_WORKERS) --dist loadfile || \
$(PYTHON) -m pytest tests/e2e -m $(1) --last-failed --last-failed-no-failures none || status=1; \
exit $$status
endef

test: $(VENV)/.dev
	$(call run_tests,"not slow")

# What make test leaves out.
test-rest: $(VENV)/.dev
	$(call run_tests,slow)

test-all: test test-rest

lint: $(VENV)/.dev
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy --strict lvmcore app
	@$(MAKE) --no-print-directory lint-js

# Without npm the JavaScript stays unchecked, and the target says so; a continuous integration fails.
lint-js:
	@if command -v npm >/dev/null; then \
	  $(MAKE) --no-print-directory node_modules/.dev && npm run --silent lint; \
	else \
	  echo "The JavaScript was not checked: npm was not found. Install Node.js 18 or newer with npm" \
	    "(on Debian and Ubuntu: sudo apt-get install nodejs npm), then run make lint-js." >&2; \
	  test -z "$$LATENTBOARD_CI"; \
	fi

node_modules/.dev: package.json package-lock.json .npmrc
	@echo "Installing what checks the JavaScript"
	@npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

format: $(VENV)/.dev
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

bench: $(VENV)/.dev
	@$(PYTHON) -m tests.e2e.browser
	@$(PYTHON) -m lvmcore.cli bench all
	@$(PYTHON) -m tests.e2e.timings

docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict --quiet
	@echo "The documentation is in build/site"

pictures: $(VENV)/.dev
	@$(PYTHON) -m tests.e2e.browser
	@$(PYTHON) -m tests.e2e.pictures

# COUNT and SEED choose the files; a file that fails is kept, and its path printed.
COUNT ?= 2000
SEED  ?= 0

campaign-files: $(VENV)/.dev
	@$(PYTHON) -m tests.campaigns.files --count $(COUNT) --seed $(SEED)

campaign-kills: $(VENV)/.dev
	@$(PYTHON) -m tests.campaigns.kills --seed $(SEED)

campaign-cluster: $(VENV)/.dev
	@$(PYTHON) -m tests.campaigns.cluster_kills --seed $(SEED)

# STEPS and SEEDS choose the walks; a failure names the steps that led to it.
STEPS ?= 200
SEEDS ?= 0 1 2 3 4

campaign-walk: $(VENV)/.dev
	@$(PYTHON) -m tests.e2e.browser
	@WALK_STEPS=$(STEPS) WALK_SEEDS="$(SEEDS)" $(PYTHON) -m pytest tests/e2e/test_random_walk.py

clean:
	rm -rf $(VENV) node_modules build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find app lvmcore tests -name __pycache__ -type d -prune -exec rm -rf {} +
