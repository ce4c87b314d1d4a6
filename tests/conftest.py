import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# The first example compiles a kernel, and a test must not depend on the clock or on luck.
settings.register_profile("keyhole", deadline=None, derandomize=True)
settings.load_profile("keyhole")

_BESIDE = Path(__file__).parents[2] / "shared" / "data" / "imagenet_val5000_mobilenet_v2.npz"


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """A Dask cluster of two processes, where its scheduler is."""
    from distributed import LocalCluster

    start: Any = LocalCluster
    with start(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="session")
def mobilenet() -> Path:
    """The real file; where it is not, the tests that need it are skipped."""
    path = Path(os.environ.get("KEYHOLE_IMAGENET", _BESIDE))
    if not path.is_file():
        pytest.skip(f"real outputs are not at {path}; set KEYHOLE_IMAGENET to such a file")
    return path
