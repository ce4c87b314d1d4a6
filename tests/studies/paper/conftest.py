from pathlib import Path

import pytest

from keyhole.studies.engine import Engine
from keyhole.studies.paper.one_run import GENERATED, MEASURED, Source
from keyhole.studies.paper.plan import plan
from keyhole.studies.paper.results import PaperResults
from keyhole.studies.paper.runs import run

RUNS = 6
SEED = 1000


def results_of(
    only: list[str], folder: Path, sources: tuple[Source, ...], *, runs: int
) -> PaperResults:
    wanted = plan(only, sources)
    outcomes = run(wanted.pairs, folder, runs=runs, seed=SEED, engine=Engine())
    return PaperResults(wanted, outcomes, runs, SEED, "keyhole paper")


@pytest.fixture(scope="session")
def airfoil(tmp_path_factory: pytest.TempPathFactory) -> PaperResults:
    """Tables 2, 4 and 6 at a few runs."""
    folder = tmp_path_factory.mktemp("airfoil")
    return results_of(["table2", "table4", "table6"], folder, (MEASURED,), runs=RUNS)


@pytest.fixture(scope="session")
def imagenet(tmp_path_factory: pytest.TempPathFactory) -> PaperResults:
    """Tables 1, 3 and 5 at a few runs, on generated outputs."""
    folder = tmp_path_factory.mktemp("imagenet")
    return results_of(["table1", "table3", "table5"], folder, (GENERATED,), runs=RUNS)
