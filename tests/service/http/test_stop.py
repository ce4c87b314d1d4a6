"""How the service ends, and what keeps it from starting."""

import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from keyhole.cli import main
from tests.patience import SECONDS
from tests.service.process import Service


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT])
def test_an_orderly_stop_ends_well_and_leaves_one_file_that_holds_everything(
    tmp_path: Path, asked: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: a stop by the signal itself, which leaves the newest rounds in the log."""
    path = tmp_path / "keyhole.db"
    with Service(f"sqlite:///{path}") as service, httpx.Client(base_url=service.url) as http:
        http.post("/v1/streams", json={"name": "pets", "alpha": 0.1})
        for _ in range(25):
            made = http.post("/v1/streams/pets/predictions", json={"scores": [0.9, 0.2]}).json()
            http.post(f"/v1/predictions/{made['id']}/feedback", json={"hit": True})
        service.send(asked)
        code, said = service.wait()
    assert (code, said) == (0, "")
    assert not [*tmp_path.glob("keyhole.db-wal"), *tmp_path.glob("keyhole.db-shm")]
    shutil.copy(path, tmp_path / "copy.db")
    assert main(["verify", "--database", f"sqlite:///{tmp_path / 'copy.db'}"]) == 0
    assert "25 rounds, 25 answers" in capsys.readouterr().out


def test_a_port_that_is_taken_is_named_with_an_exit_code_after_which_units_restart(
    tmp_path: Path,
) -> None:
    """Kills: the code that means that the database is lost."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "keyhole", "serve", "--port", str(port)]
        command += ["--database", f"sqlite:///{tmp_path / 'keyhole.db'}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603
    assert ended.returncode == 2
    assert f"cannot listen on 127.0.0.1, port {port}: Address already in use" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "keyhole.db-wal").exists()
