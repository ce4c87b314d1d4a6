import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.patience import SECONDS

# The first example compiles a kernel, and a test must not depend on the clock or on luck.
settings.register_profile(
    "keyhole", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("keyhole")

_BESIDE = Path(__file__).parents[2] / "shared" / "data" / "imagenet_val5000_mobilenet_v2.npz"


@pytest.fixture(autouse=True, scope="module")
def forget_registered_rules() -> Iterator[None]:
    """Rules that tests or pages' snippets register are gone after their module."""
    from keyhole.learners import GATES, LEARNERS

    kept = [(table, dict(table._known)) for table in (LEARNERS, GATES)]
    yield
    for table, known in kept:
        for name in set(table._known) - set(known):
            del table._known[name]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium; while it is driven its loop runs, so that it ends with its module."""
    path = find_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"], timeout=1000 * SECONDS
        )
        yield started
        started.close()


def find_chromium() -> str:
    """Return where Chromium is; without one the test is skipped, and fails in CI."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    missing = "no Chromium here; on Debian: apt-get install chromium"
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """A Dask cluster of two processes, where its scheduler is."""
    from distributed import LocalCluster

    start: Any = LocalCluster
    free_port = "127.0.0.1:0"  # None would be 8787, which another test process may hold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It warns where a folder takes a second to make.
        cluster = start(n_workers=2, threads_per_worker=1, dashboard_address=free_port)
    with cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="session")
def mobilenet() -> Path:
    """The real file; where it is not, the tests that need it are skipped."""
    path = Path(os.environ.get("KEYHOLE_IMAGENET", _BESIDE))
    if not path.is_file():
        pytest.skip(f"real outputs are not at {path}; set KEYHOLE_IMAGENET to such a file")
    return path
