"""Where work is done: threads or processes here, or a Dask cluster that is there already."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from keyhole.checks import is_whole
from keyhole.errors import InvalidError, MissingExtraError

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Engine:
    """A place to work.

    Parameters
    ----------
    name
        "threads" (kernels run without the interpreter's lock, and are compiled once),
        "processes" or "dask".
    workers
        How many at once; as many as there are unless told.
    address
        Where the cluster is; without one, Dask starts one on this machine.
    """

    name: str = "threads"
    workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise InvalidError(f"there is no engine {self.name!r}; use one of {', '.join(ENGINES)}")
        if self.workers is not None and not is_whole(self.workers, least=1):
            raise InvalidError(f"{self.workers!r} workers cannot work; use a whole number from 1")
        if self.address is not None and self.name != "dask":
            raise InvalidError(f"the engine {self.name!r} has no address; use --engine dask")

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        """Yield each item's number and result, as they are finished; the order is not fixed."""
        joblib = _joblib()
        calls = [joblib.delayed(_number)(function, *item) for item in enumerate(items)]
        cluster = _dask(self.address) if self.name == "dask" else nullcontext()
        with cluster, joblib.parallel_config(backend=ENGINES[self.name]):
            yield from _one_by_one(joblib, self._jobs(), calls)

    def _jobs(self) -> int:
        if self.workers is not None:
            return self.workers
        return -1 if self.name == "dask" else os.cpu_count() or 1


def _number(function: Callable[[Item], Result], number: int, item: Item) -> tuple[int, Result]:
    return number, function(item)


def _one_by_one(joblib: Any, jobs: int, calls: Sequence[object]) -> Iterator[Any]:
    results = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(calls)
    try:
        for result in results:  # noqa: UP028 - "yield from" would close them before we can.
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # To leave work undone is what stopping early means.
            results.close()


def _joblib() -> Any:
    try:
        import joblib
    except ImportError:
        raise MissingExtraError("engines need joblib; pip install 'keyhole-conformal[paper]'") from None
    return joblib


@contextmanager
def _dask(address: str | None) -> Iterator[None]:
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError(
            "the dask engine needs Dask; pip install 'keyhole-conformal[dask]'"
        ) from None
    try:
        connect: Any = Client
        client = connect(address, timeout="10s") if address else connect()
    except (OSError, ValueError) as error:
        raise InvalidError(f"no Dask scheduler answers at {address} ({error})") from None
    with client:
        yield


ENGINES = {"threads": "threading", "processes": "loky", "dask": "dask"}
