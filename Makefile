# Everything a checkout needs, from a bare clone with Python >= 3.11: `make demo`, `make test`.
# The targets make .venv themselves; `make PYTHON=/path/to/python3 ...` picks the interpreter.

VENV := .venv
BIN := $(VENV)/bin
CANDIDATES := python3.13 python3.12 python3.11 python3 python

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-all check format bench bench-peers bench-scale venv clean

help:
	@echo "make demo      install Defray and tell its story on a public table"
	@echo "make test      run the tests (without those that take long)"
	@echo "make test-long run those that take seconds each"
	@echo "make test-all  run all tests, also those that take minutes"
	@echo "make check     format, lint, types, import rules, then the tests"
	@echo "make format    put the code into its format"
	@echo "make bench     measure speed"
	@echo "make bench-scale  how time and memory grow (ARGS=--full: to 100 million rows)"
	@echo "make bench-peers  beside its peers, on their workloads (DEFRAY_WORKLOADS names their folder)"
	@echo "make venv      only make $(VENV), with the development tools"
	@echo "make clean     remove $(VENV) and all caches"

demo: $(VENV)/.base
	@$(BIN)/defray demo

# The tests start hundreds of interpreters, which shall keep what they compiled.
test test-long test-all: export PYTHONDONTWRITEBYTECODE =

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow and not long"

test-long: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "long and not slow"

test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadgroup

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports
	$(MAKE) test

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# ARGS: parts, --long, --json, --html PAGE; see `python -m benchmarks.peers --help`.
bench-peers: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.peers $(ARGS)

# ARGS: --full, --kinds; see `python -m benchmarks.scale --help`.
bench-scale: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.scale $(ARGS)

venv: $(VENV)/.dev

# Two stamps, made anew when pyproject.toml changes: the package alone, and with its tools.
$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(VENV)/.base $@

# The first candidate that runs, is new enough and can make environments: a name on the PATH alone
# proves nothing (a version manager's stand-in may be there without the version).
$(BIN)/python:
	@for python in $(if $(PYTHON),"$(PYTHON)",$(CANDIDATES)); do \
	    if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	        >/dev/null 2>&1; then \
	        echo "Making $(VENV) with $$($$python --version)"; \
	        $$python -m venv $(VENV); exit $$?; \
	    fi; \
	done; \
	echo "Defray needs Python 3.11 or newer with its venv module, and none of these is:" >&2; \
	echo "    $(if $(PYTHON),$(PYTHON),$(CANDIDATES))" >&2; \
	echo "Install one (on Debian also python3-venv), or say: make PYTHON=/path/to/python3" >&2; \
	exit 1

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
