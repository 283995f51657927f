# Two commands: `make demo` shows the main job, `make test` checks everything. Both set up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# One BLAS thread a process: two spinning threads on shared cores are many times slower than one.
export OMP_NUM_THREADS := 1

.PHONY: demo test test-flower check browser docs bench clean

demo: $(STAMP)
	$(BIN)/fedsched demo --out demo

test: check browser
	$(BIN)/pytest -n 2 -m 'not deployment'

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

# The tables below a `fedsched times` in the pages, as it prints them now.
docs: $(STAMP)
	$(BIN)/python docs/tables.py

bench: $(STAMP)
	$(BIN)/python -m benchmarks.run

clean:
	rm -rf $(VENV) demo

# Torch first and alone: asked for by another package it would bring gigabytes of CUDA.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)
