# Two commands: `make demo` and `make test`. Both set up everything they need; the second time is quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint clean

help:
	@echo "make demo      install divea into $(VENV) and run it on a generated pair of graphs"
	@echo "make test      lint, check types and layers, and run the quick tests"
	@echo "make test-all  the same, with the slow tests"
	@echo "make clean     remove $(VENV) and $(DEMO)"

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(INSTALL) ".[test]"
	touch $@

demo: $(VENV)/installed
	rm -rf $(DEMO)
	$(BIN)/divea synth $(DEMO) --entities 5000 --random-seed 1
	$(BIN)/divea info $(DEMO)/task
	$(BIN)/divea align $(DEMO)/task -n 5 --out $(DEMO)/run
	$(BIN)/divea evaluate $(DEMO)/run --gold $(DEMO)/gold.tsv
	@echo "matches: $(DEMO)/run/mappings.tsv   graphs: $(DEMO)/task   gold: $(DEMO)/gold.tsv"

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# Two processes of one thread each: two of two threads would wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2

test: lint
	$(PYTEST) -m "not slow"

test-all: lint
	$(PYTEST)

clean:
	rm -rf $(VENV) $(DEMO)
