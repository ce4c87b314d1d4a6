# Every target sets up .venv by itself and does so again only when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin

.PHONY: demo test check bench clean

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(VENV)/ready
	$(RUN)/keyhole demo

# The second run is the interpreted lane: the same kernels with bounds checks.
test: $(VENV)/ready
	$(RUN)/pytest
	NUMBA_DISABLE_JIT=1 $(RUN)/pytest tests/unit

check: $(VENV)/ready
	$(RUN)/ruff format --check src tests benchmarks
	$(RUN)/ruff check src tests benchmarks
	$(RUN)/mypy
	$(RUN)/lint-imports --no-cache

bench: $(VENV)/ready
	$(RUN)/python benchmarks/rounds.py

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache
