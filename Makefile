# One verb a command; people and CI use the same ones.

PYTHON ?= python3
PROVIDER ?= local
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test unit lint fmt types layers gen gen-check wheel bench check lock clean

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): requirements/dev.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Sandgate needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY) ## Run an agent through the gateway on this repository, and show its report and the audit trail
	SANDGATE_PROVIDER=$(PROVIDER) $(BIN)/sandgate demo

test: $(READY) ## Run every test, real sandboxes included
	$(BIN)/pytest -m "not benchmark"

unit: $(READY) ## Run the tests that start no sandbox: seconds
	$(BIN)/pytest -m "not local and not load and not benchmark"

bench: $(READY) ## Measure, in one run; prints a table and writes JSON beside it
	$(BIN)/pytest tests/benchmarks -m benchmark -p no:randomly -s

lint: $(READY) ## Check style, the contract's included
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd proto && ../$(BIN)/buf lint

fmt: $(READY) ## Format the code
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

types: $(READY) ## Check types
	$(BIN)/mypy

layers: $(READY) ## Check who imports whom
	$(BIN)/lint-imports

gen: ## Generate the code of the wire contract
	tools/gen

gen-check: ## Check that the generated code is fresh
	tools/gen --check

wheel: $(READY) ## Build the wheel and import it on the lowest and the newest protobuf and grpcio
	tools/check-wheel

check: lint types layers gen-check wheel test ## All of the above, as CI does

lock: ## Bring the lock files in requirements/ up to date
	tools/lock

clean: ## Remove what the other commands made
	rm -rf $(VENV) .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
