PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= auto

.PHONY: run test check lint types contracts bench soak docs clean

run: $(READY)  ## talk with the agent of the sample workspace; without a terminal, ask it one question
	@if [ -t 0 ]; then $(BIN)/foreword -w examples/assistant chat; \
	  else $(BIN)/foreword -w examples/assistant chat "What is on this week?" </dev/null; fi

test: $(READY)  ## the whole suite, in parallel
	$(BIN)/python -m pytest -n $(WORKERS)

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
	FOREWORD_SOAK=1 $(BIN)/python -m pytest -n $(WORKERS) -o faulthandler_timeout=0

docs: $(READY)  ## write what is generated: the command reference and the JSON Schemas
	$(BIN)/python -m docs.generate

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Foreword needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "This Python cannot make a virtual environment; on Debian: apt install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@
