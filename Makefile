# Two commands: `make demo` and `make test`. Both set up everything they need; the second time is quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo
RELEASE := .release
SITE := .site
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

.DEFAULT_GOAL := help
.PHONY: help demo docs test test-all lint release clean

help:
	@echo "make demo      install divea into $(VENV) and run it on two generated graphs without seeds"
	@echo "make test      lint, check types and layers, build the release and the site, and run the quick tests"
	@echo "make test-all  the same, with the slow tests"
	@echo "make release   build sdist and wheel in dist, and install the wheel into $(RELEASE)"
	@echo "make docs      build the documentation site in $(SITE); a broken link is an error"
	@echo "make clean     remove $(VENV), $(DEMO), $(RELEASE), $(SITE) and dist"

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(INSTALL) ".[test]"
	touch $@

demo: $(VENV)/installed
	rm -rf $(DEMO)
	$(BIN)/divea synth $(DEMO) --entities 5000 --names --seed-share 0 --random-seed 1
	$(BIN)/divea info $(DEMO)/task
	$(BIN)/divea align $(DEMO)/task -n 5 --out $(DEMO)/run
	$(BIN)/divea evaluate $(DEMO)/run --gold $(DEMO)/gold.tsv
	$(BIN)/divea report $(DEMO)/run --gold $(DEMO)/gold.tsv -o $(DEMO)/report.html
	@echo "matches: $(DEMO)/run/mappings.tsv   graphs: $(DEMO)/task   gold: $(DEMO)/gold.tsv"

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# What tests/test_release.py tests: sdist and wheel, and the wheel in an environment without extras. Folders
# are among the prerequisites so that a removed file counts as a change.
PACKAGED := $(shell find src tests docs benchmarks examples -name __pycache__ -prune -o -print)
PACKAGED += README.md LICENSE CHANGELOG.md CONTRIBUTING.md SECURITY.md Makefile

dist/built: $(VENV)/installed-test $(PACKAGED)
	rm -rf dist
	$(BIN)/python -m build --outdir dist > $(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
	touch $@

$(RELEASE)/environment: pyproject.toml constraints.txt | dist/built
	$(PYTHON) -m venv --clear $(RELEASE)
	$(RELEASE)/bin/pip install --quiet --constraint constraints.txt dist/*.whl
	touch $@

$(RELEASE)/installed: $(RELEASE)/environment dist/built
	$(RELEASE)/bin/pip install --quiet --no-deps --force-reinstall dist/*.whl
	touch $@

release: $(RELEASE)/installed

# Every warning is an error: a link or a heading that does not exist, a page that no list names. The source
# folder is the root of the repository; docs/conf.py says why.
docs: $(VENV)/installed-test
	rm -rf $(SITE)
	$(BIN)/python -m sphinx --quiet --builder html --conf-dir docs --doctree-dir $(SITE)/.doctrees \
		--fail-on-warning --keep-going . $(SITE)
	@echo "the site: $(SITE)/index.html"

# Two processes of one thread each: two of two threads would wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2

test: lint release docs
	$(PYTEST) -m "not slow"

test-all: lint release docs
	$(PYTEST)

clean:
	rm -rf $(VENV) $(DEMO) $(RELEASE) $(SITE) dist
