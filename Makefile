# Every target sets up .venv by itself when it is missing or stale.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed-$(shell cat pyproject.toml constraints.txt | cksum | cut -d ' ' -f 1)
WORKERS ?= 2

.PHONY: help setup demo test matrix learning fuzz results lint types bench clean

help: ## show the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 14

setup: $(STAMP) ## create or refresh .venv

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"pbim needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}: call make PYTHON=/path/to/python3.11")'
	@echo "Setting up .venv (once; about two minutes) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt hatchling editables torch==2.13.0
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[test,lint]'
	@rm -f .venv/installed-* && touch $@

demo: $(STAMP) ## reproduce the paper's cliff walk: 40 runs, verdicts, report (about a minute)
	@$(BIN)/pbim reproduce cliff

test: $(STAMP) ## run the tests (installs chromium for the browser tests where it is missing)
	@scripts/install-browser
	@$(BIN)/python -m pytest -n $(WORKERS)

matrix: $(STAMP) ## run the tests of the adapters in every release that is supported (ENVIRONMENTS="oldest newest")
	@$(BIN)/python scripts/matrix.py $(ENVIRONMENTS)

learning: $(STAMP) ## train agents until they have learnt (minutes)
	@$(BIN)/python -m pytest -m learning tests

fuzz: $(STAMP) ## damage every kind of stored file thousands of times (minutes)
	@$(BIN)/python tests/fuzzing.py

results: $(STAMP) ## make the published tables, figures and reports anew from the published rows
	@$(BIN)/python scripts/reproduction.py

lint: $(STAMP) ## check style and import directions
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

types: $(STAMP) ## check types, strict on src
	@$(BIN)/mypy

bench: $(STAMP) ## measure the conversion against plain Python
	@$(BIN)/python -m benchmarks shaping

clean: ## remove everything that was built
	rm -rf .venv .envs out build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
