# Two commands: `make demo` shows the main job, `make test` checks everything. Both set up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# One BLAS thread a process: two spinning threads on shared cores are many times slower than one.
export OMP_NUM_THREADS := 1

# Where there is no C compiler, ziglang from the package index is one.
KERNEL := $(wildcard src/fedsched/solve/kernel/*)
ifeq ($(origin CC)$(shell command -v cc || command -v gcc || command -v clang),default)
export CC := $(CURDIR)/$(BIN)/python -I -m ziglang cc
ZIG := ziglang
endif

.PHONY: demo test quick coverage test-flower check browser docs results site bench fuzz chaos supply sanitize wheel clean

demo: $(STAMP)
	$(BIN)/fedsched demo --out demo

test: check browser
	$(BIN)/pytest -n 2 -m 'not deployment'

# The inner loop: half a minute of tests, without those that are marked slow.
quick: $(STAMP)
	$(BIN)/pytest -n 2 -m 'not deployment and not slow'

# All tests, and the lines of the package that none of them runs.
coverage: $(STAMP) browser
	$(BIN)/pytest -n 2 -m 'not deployment' --cov --cov-report=term-missing:skip-covered

# Real Flower processes on loopback, killed and restarted: some minutes, most of them waiting.
test-flower: $(STAMP)
	$(BIN)/pytest -n 2 -m deployment tests/flower

# The report is tested in a real browser. Where none can be installed those tests are skipped and
# say so.
browser:
	@command -v chromedriver >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && apt-get install -y -qq chromium chromium-driver >/dev/null; } \
	  || echo "no browser: the report's browser tests will be skipped"

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The tables below a `fedsched times` in the pages, as it prints them now; what notebooks print and draw.
docs: $(STAMP)
	$(BIN)/python docs/tables.py
	cd $$(mktemp -d) && $(CURDIR)/$(BIN)/python $(CURDIR)/docs/notebooks.py

# The same, and the committed figures and the report, from all runs in results/.
results: $(STAMP)
	$(BIN)/python docs/tables.py --draw

# The documentation site, into site/: open site/index.html. Nothing is fetched; a warning is an error.
# Its search wants a server: `python -m http.server --directory site --bind 127.0.0.1`.
site: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(STAMP)
	$(BIN)/python -m benchmarks.run

# More than a million inputs to everything that reads, some minutes. Stopped, it goes on later.
fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz.everything --ledger $(VENV)/fuzz.jsonl

# Death and errors at every file operation, kills at random, and Flower's processes killed: an hour.
chaos: $(STAMP)
	$(BIN)/python -m tests.chaos.chaos --ledger $(VENV)/chaos.jsonl

# What `make` has installed, against the checksums of requirements.lock.
supply: $(STAMP)
	$(BIN)/python -m supply verify $(VENV)/installed.json

sanitize: $(STAMP)
	sh tests/solve/sanitize.sh $(BIN)/python

wheel: $(STAMP)
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) demo dist src/fedsched/solve/_kernel*.so

# Torch first and alone: asked for by another package it would bring gigabytes of CUDA.
$(STAMP): pyproject.toml constraints.txt hatch_build.py $(KERNEL)
	$(PYTHON) -m venv $(VENV)
	$(if $(ZIG),$(BIN)/pip install --quiet --constraint constraints.txt $(ZIG))
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --report $(VENV)/installed.json \
	  --editable '.[dev]'
	touch $(STAMP)
