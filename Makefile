# On a fresh machine with Python 3.11 or newer:
#   make demo       the main job, ending with its tables
#   make test       lint, types and every test that is not slow: the loop, and what CI runs first
#   make slow       the tests that CI runs after it
#   make test-all   both, and the site
#   make docs       the documentation site, in build/site
#   make torture    kill, break, attack and fuzz for MINUTES=60, and see whether the promises hold
PYTHON ?= python3
BIN := .venv/bin
CORES := $(shell getconf _NPROCESSORS_ONLN)
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(CORES) --durations 15

.PHONY: demo test test-all install lint types quick slow long versions coverage docs bench torture clean

demo: install
	$(BIN)/corpusfit demo

# Types are checked by one process, beside the tests.
test: lint
	$(MAKE) -j 2 types quick

test-all: test slow docs

install: .venv/installed

# pip compiles Python's files one after the other, half of its processor time; so all cores do it
# afterwards. It fails on files that packages keep for other versions of Python.
.venv/installed: pyproject.toml papers/pyproject.toml requirements-dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable . --editable ./papers
	$(BIN)/python -m compileall -qq -j 0 -x /tests/ .venv/lib || true
	touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/typos
	$(BIN)/lint-imports
	$(BIN)/python .ci/words.py
	$(BIN)/python .ci/style.py
	$(BIN)/python .ci/budget.py

types: install
	$(BIN)/mypy

quick: install
	$(PYTEST) -m "not slow"

# Slow tests often wait for a process, so one more of them runs than there are cores.
slow: install
	$(PYTEST) -n $(shell expr $(CORES) + 1) --dist worksteal -m "slow and not long"

# Before a release: what takes minutes and seldom breaks, such as every paper's recipe to its end,
# new random examples, and the promises tried at random.
long: install
	$(PYTEST) -m "long or hypothesis" --hypothesis-profile new

# Before a release: the lowest and the newest versions that pyproject.toml allows are installed and
# used; with the oldest Python, as PYTHON=python3.11. PIN=torch==2.13.0 is taken in place of either.
PIN ?=
versions: install
	$(BIN)/python .ci/versions.py $(addprefix --pin ,$(PIN))
	$(BIN)/python .ci/versions.py --newest $(addprefix --pin ,$(PIN))

# Lines and branches of the readers and artifacts that the quick tests reach, as a table.
coverage: install
	mkdir -p build/coverage
	OMP_NUM_THREADS=1 $(BIN)/coverage run -m pytest -q -n $(CORES) -m "not slow"
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

# The site needs the core alone: no PyTorch.
docs:
	test -x build/docs-venv/bin/python || $(PYTHON) -m venv build/docs-venv
	build/docs-venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt --editable .
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=src build/docs-venv/bin/python -m mkdocs build --strict

bench: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-bench.txt
	$(PYTEST) benchmarks/tests
	for name in encode isolation_forest mixtures memory dsir; do $(BIN)/python benchmarks/$$name.py || exit 1; done

# Try for some minutes whether the promises hold (needs gcc): benchmarks/torture.
MINUTES ?= 60
torture: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-bench.txt
	$(BIN)/python benchmarks/torture --minutes $(MINUTES)

clean:
	rm -rf .venv demo-out build dist src/*.egg-info papers/src/*.egg-info
