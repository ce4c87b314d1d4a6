# Every target sets up .venv by itself and does so again only when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin

.PHONY: demo docs snippets serve test test-spark test-release dist sbom torture fuzz check bench bench-service examples screenshots coverage mutants paper board clean

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# The demo needs numpy and matplotlib alone; the developers' environment serves too, where it is.
DEMO := $(if $(wildcard $(VENV)/ready),$(VENV),.venv-demo)

.venv-demo/ready: pyproject.toml
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/pip install --quiet --disable-pip-version-check --editable . matplotlib
	touch $@

demo: $(DEMO)/ready
	$(DEMO)/bin/keyhole demo

# The service with handwritten digits to label, at http://127.0.0.1:8000; whatever runs on this machine
# may use it (--open), and without that the page asks for the token that the first start prints.
serve: $(VENV)/ready
	$(RUN)/keyhole serve --demo --open

# Three at a time, because many tests wait for a server or a browser; a file in one process. What is
# compiled is kept in the user's cache folder (or in KEYHOLE_CACHE) for other processes and later runs.
# The second run is the interpreted lane: the same kernels with bounds checks, without what is long and
# looks at no further line of them.
LONG := --ignore=tests/learners/contract/test_excess.py \
	--ignore=tests/learners/contract/test_regret.py \
	--ignore=tests/learners/test_bounds.py \
	--ignore=tests/learners/test_gates.py \
	--ignore=tests/learners/test_limits.py \
	--ignore=tests/predictor/test_combinations.py
# Each process computes in one thread: several that wait for each other on the same cores take up to 100
# times as long.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(RUN)/pytest --numprocesses=3 --dist=loadfile
test: $(VENV)/ready
	$(PYTEST)
	NUMBA_DISABLE_JIT=1 $(PYTEST) tests/learners tests/predictor tests/simulation $(LONG)

.venv-spark/ready: pyproject.toml
	$(PYTHON) -m venv .venv-spark
	.venv-spark/bin/pip install --quiet --disable-pip-version-check --editable '.[spark,fast]' hypothesis pytest
	touch $@

# Spark is 490 MB and needs Java 17, so that it has an environment of its own; make test skips it.
test-spark: .venv-spark/ready
	.venv-spark/bin/pytest tests/integrations/test_spark*.py

.venv-release/ready: pyproject.toml
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/pip install --quiet --disable-pip-version-check --editable '.[release]' hypothesis mypy pytest
	touch $@

# Wheel and sdist, each installed into an empty environment, where the README's first block must run.
test-release: .venv-release/ready
	.venv-release/bin/pytest tests/release

dist: .venv-release/ready
	.venv-release/bin/python -m build --no-isolation
	.venv-release/bin/twine check --strict dist/*

# What comes with it, in CycloneDX's form: the packages of an environment that holds every extra of all.
sbom: .venv-release/ready
	$(PYTHON) -m venv --clear out/sbom && out/sbom/bin/pip install --quiet --disable-pip-version-check '.[all]'
	.venv-release/bin/cyclonedx-py environment --output-format JSON --output-file out/sbom.json out/sbom/bin/python

# The long form of the service's tests: 100 kills on each database, and what else goes wrong.
torture: $(VENV)/ready
	KEYHOLE_KILLS=100 $(RUN)/pytest -rP tests/service/test_torture.py tests/service/test_failover.py

fuzz: $(VENV)/ready
	KEYHOLE_REQUESTS=100000 $(RUN)/pytest -rP tests/service/test_mutated.py
	KEYHOLE_EXAMPLES=1000 $(RUN)/pytest -rP tests/service/test_fuzz.py

check: $(VENV)/ready
	$(RUN)/ruff format --check src tests benchmarks examples docs/site.py
	$(RUN)/ruff check src tests benchmarks examples docs/site.py
	$(RUN)/mypy
	$(RUN)/lint-imports --no-cache
	$(RUN)/python docs/site.py

# The documentation, in out/site/: fails at a broken link or a public name without a sentence.
docs: $(VENV)/ready
	$(RUN)/python docs/site.py

# What the snippets of README and docs print now, written into the pages; in one thread, as in the tests.
snippets: $(VENV)/ready
	$(ONE_THREAD) $(RUN)/python -m tests.docs.refresh

# Line and branch coverage of the interpreted lane, where the kernels are seen too.
coverage: $(VENV)/ready
	NUMBA_DISABLE_JIT=1 $(RUN)/coverage run -m pytest tests/learners tests/predictor tests/simulation
	$(RUN)/coverage report --skip-covered --show-missing

# Small changes of the source that the tests should notice, and the score (hours; not in CI). It goes on
# where it was stopped. SHARE=0.1 takes a tenth, ROOMS="learners bounds" two rooms of four.
mutants: $(VENV)/ready
	$(RUN)/pip install --quiet --disable-pip-version-check 'cosmic-ray>=8.7'
	$(RUN)/python benchmarks/mutants.py --share $(or $(SHARE),1) --seed $(or $(SEED),0) $(ROOMS)

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

# Other libraries need environments of their own to play the board.
.venv-board-online/ready: pyproject.toml
	$(PYTHON) -m venv .venv-board-online
	.venv-board-online/bin/pip install --quiet --disable-pip-version-check --prefer-binary --editable '.[digits]' \
		online-conformal==1.0.2 river==0.26.1 adaptive-conformal-inference==1.0.1 'setuptools<81'
	touch $@

.venv-board-series/ready: pyproject.toml
	$(PYTHON) -m venv .venv-board-series
	.venv-board-series/bin/pip install --quiet --disable-pip-version-check --prefer-binary --editable '.[digits]' \
		crepes==0.9.1 mapie==1.6.0
	touch $@

# The board in docs/: the learners and the other libraries, all scenarios; it continues where it stopped.
board: $(VENV)/ready .venv-board-online/ready .venv-board-series/ready
	.venv-board-online/bin/keyhole bench --entrants peers > /dev/null & \
	.venv-board-series/bin/keyhole bench --entrants peers > /dev/null && wait $$!
	$(RUN)/keyhole bench --entrants learners --page docs/board.md
	cp out/board/board.json docs/board.json

# A durable round over HTTP beside a bare endpoint, then as the log grows to a million rounds.
bench-service: $(VENV)/ready
	$(RUN)/python benchmarks/service.py
	$(RUN)/python benchmarks/service.py --grow 1000000

# What /docs of a running service shows as examples: what a service really took and answered.
examples: $(VENV)/ready
	$(RUN)/python -m tests.service.page.examples

# The pictures of the page that the documents show.
screenshots: $(VENV)/ready
	$(RUN)/python -m tests.service.page.screenshots docs

clean:
	rm -rf $(VENV) .venv-demo .venv-spark .venv-release .venv-board-online .venv-board-series dist out .mypy_cache .ruff_cache .pytest_cache
