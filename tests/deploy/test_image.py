"""The Dockerfile's own commands build a service that runs as the image would (see ``Image``)."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import keyhole
from keyhole.cli import _parser
from keyhole.service.client.client import Client
from tests.deploy.image import Image, is_let_in
from tests.patience import SECONDS
from tests.service.serving import wait_until

NEEDED = ("groupadd", "useradd", "setpriv")


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    if os.geteuid() != 0 or not all(map(shutil.which, NEEDED)):
        pytest.skip(f"only root can become the image's user, by {', '.join(NEEDED)}")
    # Not in pytest's own folder, which its user could not enter.
    folder = Path(tempfile.mkdtemp(prefix="keyhole-image-"))
    try:
        yield Image(folder)
    finally:
        shutil.rmtree(folder)


def test_docker_sees_the_source_and_no_more() -> None:
    assert is_let_in("src/keyhole/cli.py")
    assert is_let_in("README.md")
    for path in ("src/keyhole/__pycache__/cli.pyc", "tests/conftest.py", ".git/config", "deploy/.env"):
        assert not is_let_in(path)


def test_the_image_serves_a_round_as_its_user_and_stops_in_order(image: Image) -> None:
    command = image.commands["ENTRYPOINT"] + image.commands["CMD"]
    assert _parser().parse_args(command[1:]).port == image.port
    log = image.root / "log"
    with log.open("w") as said:
        # A later argument wins: nothing listens beyond this machine, nor where something else may.
        service = image.start([*command, "--host", "127.0.0.1", "--port", "0"], stderr=said)
    try:
        wait_until(lambda: service.poll() is not None or "listens on" in log.read_text())
        found = re.search(r"listens on (http://127.0.0.1:(\d+))", log.read_text())
        assert found, log.read_text()
        check = [
            part.replace(f":{image.port}/", f":{found[2]}/") for part in image.commands["HEALTHCHECK"]
        ]
        wait_until(lambda: image.run(*check)[0] == 0)  # It waits four seconds, and Docker asks again.
        assert httpx.get(f"{found[1]}/healthz", timeout=SECONDS).status_code == 200
        assert httpx.get(f"{found[1]}/v1/streams", timeout=SECONDS).status_code == 401
        code, token = image.run("keyhole", "token")
        assert code == 0
        with Client(found[1], token=token.strip(), timeout=SECONDS) as client:
            client.create_stream("pets", alpha=0.1)
            client.learn(client.predict("pets", {"cat": 0.7, "lynx": 0.3}), keyhole.MISS)
            assert client.stream("pets").rounds == 1
    finally:
        service.terminate()
        try:
            code = service.wait(SECONDS)
        finally:
            service.kill()
    assert code == 0, log.read_text()
    assert image.run(*check)[0] == 1
    assert image.run("keyhole", "verify")[0] == 0
    data = image.root / "data"
    assert (data.stat().st_uid, data.stat().st_mode & 0o777) == (image.uid, 0o700)
    assert {path.name for path in data.iterdir()} == {"keyhole.db", "keyhole.db.token"}


def test_its_user_writes_to_the_volume_and_to_tmp_alone(image: Image) -> None:
    """Kills: an image that cannot be mounted read-only."""
    program = "import keyhole.numeric as f; print(f.__file__, f.cache_root())"
    installed, compiled = image.run("python", "-c", program)[1].split()
    assert installed.startswith(f"{image.root}/opt/keyhole/")
    assert Path(compiled).parent == image.root / "tmp"
    owned = {
        path.relative_to(image.root).parts[0]
        for path in (Path(folder, name) for folder, _, names in os.walk(image.root) for name in names)
        if path.lstat().st_uid == image.uid
    }
    assert owned <= {"data", "tmp"}
    assert image.run("touch", f"{image.root}/opt/keyhole/new")[0] != 0
