"""Where work is done: threads or processes here, or a Dask or Ray cluster that is there already."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from keyhole.checks import is_whole
from keyhole.errors import EngineError, MissingExtraError

Item = TypeVar("Item")
Result = TypeVar("Result")
_CALLS_AHEAD = 4


@dataclass(frozen=True)
class Engine:
    """A place to work.

    Parameters
    ----------
    name
        "threads" (kernels run without the interpreter's lock, and are compiled once),
        "processes", "dask" or "ray".
    workers
        How many at once; as many as there are unless told.
    address
        Where the cluster is; without one, Dask and Ray start one on this machine.
    """

    name: str = "threads"
    workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise EngineError(f"there is no engine {self.name!r}; use one of {', '.join(ENGINES)}")
        if self.workers is not None and not is_whole(self.workers, least=1):
            raise EngineError(f"{self.workers!r} workers cannot work; use a whole number from 1")
        if self.address is not None and self.name not in _CLUSTERS:
            raise EngineError(
                f"the engine {self.name!r} has no address; use --engine dask or --engine ray"
            )

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        """Yield each item's number and result, as they are finished; the order is not fixed."""
        joblib = _joblib()
        calls = [joblib.delayed(_numbered)(function, *item) for item in enumerate(items)]
        with _CLUSTERS.get(self.name, _here)(self), joblib.parallel_config(backend=ENGINES[self.name]):
            # Ray's backend cannot yield results before it has them all.
            finish = _in_batches if self.name == "ray" else _one_by_one
            yield from finish(joblib, self._jobs(), calls)

    def _jobs(self) -> int:
        if self.workers is not None:
            return self.workers
        return -1 if self.name in _CLUSTERS else os.cpu_count() or 1


def _numbered(function: Callable[[Item], Result], number: int, item: Item) -> tuple[int, Result]:
    return number, function(item)


def _one_by_one(joblib: Any, jobs: int, calls: Sequence[Any]) -> Iterator[Any]:
    results = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(calls)
    try:
        for result in results:  # noqa: UP028 - "yield from" would close them before we can.
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # To leave work undone is what stopping early means.
            results.close()


def _in_batches(joblib: Any, jobs: int, calls: Sequence[Any]) -> Iterator[Any]:
    size = _CALLS_AHEAD * joblib.effective_n_jobs(jobs)
    for first in range(0, len(calls), size):
        yield from joblib.Parallel(n_jobs=jobs)(calls[first : first + size])


def _joblib() -> Any:
    try:
        import joblib
    except ImportError:
        raise MissingExtraError("engines need joblib; pip install 'keyhole[paper]'") from None
    return joblib


def _here(engine: Engine) -> AbstractContextManager[None]:  # noqa: ARG001
    return nullcontext()


@contextmanager
def _dask(engine: Engine) -> Iterator[None]:
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError("the dask engine needs Dask; pip install 'keyhole[dask]'") from None
    try:
        connect: Any = Client
        client = connect(engine.address, timeout="10s") if engine.address else connect()
    except (OSError, ValueError) as error:
        raise EngineError(f"no Dask scheduler answers at {engine.address} ({error})") from None
    with client:
        yield


@contextmanager
def _ray(engine: Engine) -> Iterator[None]:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise MissingExtraError("the ray engine needs Ray; pip install ray") from None
    register_ray()
    ours = not ray.is_initialized()
    if ours:
        ray.init(address=engine.address)
    try:
        yield
    finally:
        if ours:
            ray.shutdown()


ENGINES = {"threads": "threading", "processes": "loky", "dask": "dask", "ray": "ray"}
_CLUSTERS: dict[str, Callable[[Engine], AbstractContextManager[None]]] = {"dask": _dask, "ray": _ray}
