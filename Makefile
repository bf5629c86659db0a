PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.ready-to-run
READY := $(VENV)/.ready
# Tests wait more than they compute: two workers for each core.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(2 * (os.cpu_count() or 1))')
# pip shows its own progress. It compiles nothing ahead of time: Python compiles what it imports, which is a fraction.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --no-compile

# Tests start hundreds of processes; without bytecode on disk each of them compiles every module it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test check lint types contracts bench soak docs clean

run: $(RUNS)  ## talk with the agent of the sample workspace; without a terminal, ask it one question
	@if [ -t 0 ]; then $(BIN)/foreword -w examples/assistant chat; \
	  else $(BIN)/foreword -w examples/assistant chat "What is on this week?" </dev/null; fi

test: $(READY)  ## the whole suite, in parallel
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

check: lint types contracts test  ## everything that CI runs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

contracts: $(READY)
	$(BIN)/lint-imports

bench: $(READY)  ## every figure of the documentation, beside its baseline
	$(BIN)/python -m bench

soak: $(READY)  ## the whole suite, with the full counts of its properties and no limit of time
	FOREWORD_SOAK=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -o faulthandler_timeout=0

docs: $(READY)  ## write what is generated: the command reference and the JSON Schemas
	$(BIN)/python -m docs.generate

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(RUNS): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Foreword needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || { echo "Making a virtual environment in $(VENV)"; $(PYTHON) -m venv $(VENV); } || \
	  { echo "This Python cannot make a virtual environment; on Debian: apt install python3-venv"; exit 1; }
	@echo "Installing what running needs: the gateway and the engine of the embedded model"
	$(PIP) --editable '.[local]'
	@touch $@

$(READY): $(RUNS)
	@echo "Installing what the tests need"
	$(PIP) --editable '.[dev]'
	@touch $@
