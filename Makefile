# Every target sets up .venv by itself when it is missing or stale.
PYTHON ?= python3
BIN := .venv/bin
SUM := $(shell cat pyproject.toml constraints.txt | cksum | cut -d ' ' -f 1)
DEMO := .venv/demo-$(SUM)
STAMP := .venv/installed-$(SUM)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
WORKERS ?= 2
# What the number of `make coverage` rests on: the tests of what a user's reward goes through.
PACKAGES := shaping adapters verification
COVERED := tests/laws tests/testing tests/cli/test_audit.py tests/cli/test_verify.py $(foreach each,$(PACKAGES),tests/$(each) src/pbim/$(each))

.PHONY: help setup demo test rest matrix learning fuzz results lint types bench docs coverage release clean

help: ## show the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 14

setup: $(STAMP) ## create or refresh .venv

# What the demo needs; the tests' set is installed on top of it, in the same place. Bytecode is made where it is imported,
# which is a small part of what is installed.
$(DEMO):
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"pbim needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}: call make PYTHON=/path/to/python3.11")'
	@echo "Setting up .venv (once; about a minute) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) --no-compile hatchling editables
	@$(PIP) --no-compile --no-build-isolation -e '.[studies]'
	@rm -f .venv/demo-* && touch $@

$(STAMP): $(DEMO)
	@echo "Adding what the tests need (once; about two minutes) ..."
	@$(PIP) torch==2.13.0
	@$(PIP) --no-build-isolation -e '.[test,lint]'
	@rm -f .venv/installed-* && touch $@

demo: $(DEMO) ## reproduce the paper's cliff walk: 40 runs, verdicts, report (about a minute)
	@$(BIN)/pbim reproduce cliff

test: coverage rest ## run all tests, each once (installs chromium for the browser tests where it is missing)

rest: $(STAMP) ## run the tests that make coverage does not run
	@scripts/install-browser
	@$(BIN)/python -m pytest -n $(WORKERS) $(COVERED:%=--ignore=%)

matrix: $(STAMP) ## run the tests of the adapters in every release that is supported (ENVIRONMENTS="--quick oldest")
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

coverage: $(STAMP) ## run the tests of conversions, adapters and verification, and print the lines and branches they reach
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -n $(WORKERS) $(COVERED)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --skip-covered --show-missing

release: ## build and check what a release uploads, on every Python there is of 3.11 to 3.13; uploads nothing
	@scripts/environment release
	@.envs/release/bin/python scripts/release.py $(RELEASE)

docs: ## build the site into docs/_build/html, in an environment of its own; warnings are errors
	@scripts/environment docs
	@OMP_NUM_THREADS=1 .envs/docs/bin/python -m sphinx -E -W --keep-going -q -b html docs docs/_build/html
	@scripts/install-browser
	@.envs/docs/bin/python -m pytest -q --noconftest -p no:cacheprovider tests/test_site.py
	@.envs/docs/bin/python -m pytest -q --confcutdir=tests/browser -p no:cacheprovider tests/browser/test_site.py
	@echo "docs/_build/html/index.html"

clean: ## remove everything that was built
	rm -rf .venv .envs docs/_build docs/api/generated out build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
