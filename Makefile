# Latentboard: every target makes what it needs, the virtual environment .venv included.
#
#   make app         open the dashboard
#   make test        all tests but the slow ones; gets a browser for its tests where it can
#   make test-slow   the slow tests
#   make lint        ruff and mypy
#   make format      put the source into the house's format
#   make bench       the papers' tables, the speed figures and the page timings
#   make pictures    the README's pictures, into assets
#   make clean       remove .venv and everything that the tools left behind

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help app test test-slow lint format bench pictures clean

VENV   := .venv
PYTHON := $(VENV)/bin/python
PIP    := $(PYTHON) -m pip --disable-pip-version-check -qq
TORCH  := $(shell sed -n '/^torch==/p' constraints.txt)

# Test processes side by side. The browser tests always run one after the other.
WORKERS ?= 2

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
	@$(PIP) install -c constraints.txt -e ".[formats]"
	@touch $@

$(VENV)/.dev: $(VENV)/.app
	@echo "Installing what the tests need"
	@$(PIP) install -c constraints.txt -e ".[dev,formats]"
	@touch $@

app: $(VENV)/.app
	@$(PYTHON) -m app

# Both halves always run; the target fails where one of them does.
test: $(VENV)/.dev
	@$(PYTHON) -m tests.e2e.browser
	@status=0; \
	$(PYTHON) -m pytest -m "not slow and not e2e" -n $(WORKERS) || status=1; \
	$(PYTHON) -m pytest -m "e2e and not slow" || status=1; \
	exit $$status

test-slow: $(VENV)/.dev
	@$(PYTHON) -m pytest -m slow

lint: $(VENV)/.dev
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy --strict lvmcore app

format: $(VENV)/.dev
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

bench: $(VENV)/.dev
	@$(PYTHON) -m tests.e2e.browser
	@$(PYTHON) -m lvmcore.cli bench all
	@$(PYTHON) -m tests.e2e.timings

pictures: $(VENV)/.dev
	@$(PYTHON) -m tests.e2e.browser
	@$(PYTHON) -m tests.e2e.pictures

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find app lvmcore tests -name __pycache__ -type d -prune -exec rm -rf {} +
