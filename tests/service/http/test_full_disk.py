"""A disk that is full: said, waited for, and never taken for a lost file."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from keyhole.service.store.log import replay
from keyhole.service.store.sql.database import Database
from tests.patience import SECONDS
from tests.service.process import Service
from tests.service.serving import wait_until

SIZE = 2_000_000


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    folder, mount = tmp_path / "small", shutil.which("mount")
    folder.mkdir()
    if mount is None or os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    command = [mount, "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:  # noqa: S603
        pytest.skip("no file system may be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S603, S607


def predict(http: httpx.Client) -> httpx.Response:
    scores = [0.5] * 500
    batch = {"predictions": [{"scores": [k / 50, *scores]} for k in range(10)]}
    return http.post("/v1/streams/pets/predictions/batch", json=batch)


def fill(http: httpx.Client) -> tuple[int, httpx.Response]:
    """Predict until the disk is full; return how many predictions were made, and the refusal."""
    for k in range(2000):
        response = predict(http)
        if response.status_code != 201:
            return 10 * k, response
    raise AssertionError("the disk was never full")


def stuff(path: Path, http: httpx.Client) -> None:
    """Take what room there is left, to the last page, then what the log has kept for itself."""
    with suppress(OSError), path.open("wb", buffering=0) as opened:
        while True:
            opened.write(b"x" * 4096)
    names = iter(range(2000))
    wait_until(lambda: _make_stream(http, f"{path.name}-{next(names)}") == 503)


def _make_stream(http: httpx.Client, name: str) -> int:
    return http.post("/v1/streams", json={"name": name, "alpha": 0.1}).status_code


def test_a_full_disk_is_said_and_the_service_goes_on_when_there_is_room(small: Path) -> None:
    """Kills: a checkpoint that the disk has no room for, taken for a file that was cut short."""
    url, ballast = f"sqlite:///{small / 'keyhole.db'}", small / "ballast"
    ballast.write_bytes(b"x" * (SIZE // 2))
    count = 0
    with Service(url) as service, httpx.Client(base_url=service.url, timeout=SECONDS) as http:
        http.post("/v1/streams", json={"name": "pets", "alpha": 0.1, "open_limit": 100})
        for more, room in ((small / "more", SIZE // 4), (small / "again", 0)):
            made, refused = fill(http)
            count += made
            assert refused.status_code == 503
            stuff(more, http)
            wait_until(lambda: http.get("/readyz").status_code == 503)
            for response in (refused, http.get("/readyz")):
                message = response.json()["error"]["message"]
                assert "the disk of the database is full" in message
                assert "restore" not in message
            for _ in range(3):
                assert predict(http).status_code == 503
                assert http.get("/v1/streams/pets").status_code == 200
                assert http.get("/healthz").status_code == 200
            more.unlink()
            ballast.write_bytes(b"x" * room)
            wait_until(lambda: http.get("/readyz").status_code == 200)
            assert predict(http).status_code == 201
            count += 10
        assert http.get("/v1/streams/pets").json()["predicted"] == count
        service.stop()
        assert service.wait()[0] == 0
    database = Database(url)
    assert replay.replay(database, "pets").difference is None
    database.close()


def test_a_service_starts_on_a_full_disk_shows_what_there_is_and_goes_on_when_there_is_room(
    small: Path,
) -> None:
    url, ballast = f"sqlite:///{small / 'keyhole.db'}", small / "ballast"
    ballast.write_bytes(b"x" * (SIZE // 2))
    with Service(url) as service, httpx.Client(base_url=service.url, timeout=SECONDS) as http:
        http.post("/v1/streams", json={"name": "pets", "alpha": 0.1, "open_limit": 100})
        count, _ = fill(http)
        service.kill()
        service.start()
        wait_until(lambda: predict(http).status_code == 503)
        seen = http.get("/v1/streams/pets").json()["predicted"]
        assert seen >= count
        ballast.unlink()
        wait_until(lambda: http.get("/readyz").status_code == 200)
        assert predict(http).status_code == 201
        assert http.get("/v1/streams/pets").json()["predicted"] == seen + 10
