# Two commands do everything on a fresh machine with Python 3.11 or newer:
#   make demo   the main job, ending with its tables
#   make test   lint, types, tests
PYTHON ?= python3
BIN := .venv/bin
CORES := $(shell getconf _NPROCESSORS_ONLN)

.PHONY: demo test install lint types unit bench docs clean

demo: install
	$(BIN)/corpusfit demo

test: lint types unit

install: .venv/installed

.venv/installed: pyproject.toml requirements-dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/typos
	$(BIN)/lint-imports

types: install
	$(BIN)/mypy

unit: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(CORES) --dist loadgroup --durations 15

bench: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-bench.txt
	for name in encode isolation_forest mixtures memory dsir; do $(BIN)/python benchmarks/$$name.py || exit 1; done

clean:
	rm -rf .venv demo-out build dist src/*.egg-info
