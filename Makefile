# Every target does all of its set-up: a virtual environment in .venv, made with uv or else with pip.
# Nothing is installed elsewhere, nothing needs root, and a second run finds the work done.

BIN := .venv/bin
SETUP := pyproject.toml uv.lock .ci/venv
# Files run in four processes even on two cores, for most tests wait; each file in one: its tests may share
# a server. The files come in the order of tests/support/slow_files.py.
PYTEST := $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder
# given on the command line, these reach the shell as variables: no quoting can break them
export DOCS QUESTION
# hundreds of processes of the tests import the same files: the first one compiles them
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo up test lint format bench soak clean

demo: .venv/.ditto-base ## run the main pipeline over a folder of texts: make demo DOCS=path QUESTION="..."
	@$(BIN)/ditto demo $(if $(DOCS),--docs "$$DOCS") $(if $(QUESTION),--question "$$QUESTION")

up: .venv/.ditto-base ## keep a server, a worker and Flower running until Ctrl-C
	@$(BIN)/ditto up

lint: .venv/.ditto-dev ## style, format, types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

test: lint ## everything that must hold, the wheel in a fresh environment included
	$(PYTEST) $(ARGS)

format: .venv/.ditto-dev ## rewrite the code in the one format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: .venv/.ditto-dev ## ratios against the ceilings, in one run
	$(BIN)/python -m benchmarks

soak: .venv/.ditto-dev ## kill workers for minutes and count what was lost
	$(BIN)/python -m benchmarks.soak

clean: ## remove what the targets made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo dist build
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/.ditto-base: $(SETUP)
	@.ci/venv base

.venv/.ditto-dev: $(SETUP)
	@.ci/venv dev
