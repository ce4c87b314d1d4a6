# Every target sets up .venv by itself and does so again only when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin

.PHONY: demo serve test torture check bench bench-service screenshots coverage paper clean

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(VENV)/ready
	$(RUN)/keyhole demo
	@echo "To label digits yourself and watch the curves move: make serve"

# The service with handwritten digits to label, at http://127.0.0.1:8000.
serve: $(VENV)/ready
	$(RUN)/keyhole serve --demo

# The second run is the interpreted lane: the same kernels with bounds checks.
test: $(VENV)/ready
	$(RUN)/pytest
	NUMBA_DISABLE_JIT=1 $(RUN)/pytest tests/unit

# The long form of the service's tests: 50 kills on each database, 1,000 fuzzed requests a route.
torture: $(VENV)/ready
	KEYHOLE_KILLS=50 KEYHOLE_EXAMPLES=1000 $(RUN)/pytest tests/service/test_torture.py tests/service/test_fuzz.py

check: $(VENV)/ready
	$(RUN)/ruff format --check src tests benchmarks
	$(RUN)/ruff check src tests benchmarks
	$(RUN)/mypy
	$(RUN)/lint-imports --no-cache

# Line and branch coverage of the interpreted lane, where the kernels are seen too.
coverage: $(VENV)/ready
	NUMBA_DISABLE_JIT=1 $(RUN)/coverage run -m pytest tests/unit
	$(RUN)/coverage report --skip-covered --show-missing

bench: $(VENV)/ready
	$(RUN)/python benchmarks/rounds.py
	$(RUN)/python benchmarks/learners.py
	$(RUN)/python benchmarks/regret.py
	$(RUN)/python benchmarks/peers.py

# The report in docs/; with IMAGENET=FILE MODEL=NAME also on that classifier's outputs.
paper: $(VENV)/ready
	$(RUN)/keyhole paper --out out/paper $(if $(IMAGENET),--imagenet $(IMAGENET) --model $(MODEL))
	mkdir -p docs/paper
	cp out/paper/figures/*.png docs/paper/
	sed 's#](figures/#](paper/#' out/paper/report.md > docs/paper.md

# A durable round over HTTP beside a bare endpoint, then as the log grows to a million rounds.
bench-service: $(VENV)/ready
	$(RUN)/python benchmarks/service.py
	$(RUN)/python benchmarks/service.py --grow 1000000

screenshots: $(VENV)/ready
	$(RUN)/python -m tests.browser.screenshots docs

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache
