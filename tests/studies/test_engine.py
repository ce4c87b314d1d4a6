import math

import pytest

from keyhole.errors import InvalidError
from keyhole.studies.engine import Engine

NUMBERS = list(range(23))


def results(engine: Engine) -> list[float]:
    found = dict(engine.map(math.sqrt, NUMBERS))
    return [found[place] for place in range(len(NUMBERS))]


@pytest.mark.parametrize("workers", [1, 2, None])
def test_threads_give_every_result_once(workers: int | None) -> None:
    assert results(Engine("threads", workers=workers)) == [math.sqrt(n) for n in NUMBERS]


def test_processes_give_every_result_once() -> None:
    assert results(Engine("processes", workers=2)) == [math.sqrt(n) for n in NUMBERS]


def test_a_dask_cluster_gives_every_result_once(address: str) -> None:
    assert results(Engine("dask", address=address)) == [math.sqrt(n) for n in NUMBERS]


def test_an_error_in_the_work_reaches_the_caller() -> None:
    with pytest.raises(ValueError, match="domain"):
        dict(Engine("threads", workers=2).map(math.sqrt, [1.0, -1.0]))


def test_stopping_early_does_not_hang() -> None:
    unfinished = Engine("threads", workers=2).map(math.sqrt, list(range(1_000)))
    next(unfinished)
    unfinished.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "abacus"}, "abacus"),
        ({"name": "threads", "workers": 0}, "0 workers"),
        ({"name": "threads", "address": "tcp://127.0.0.1:1"}, "has no address"),
    ],
)
def test_an_engine_that_cannot_be_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        Engine(**given)  # type: ignore[arg-type]
