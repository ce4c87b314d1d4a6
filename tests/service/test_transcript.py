"""The transcript of the how-to is what happens."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from keyhole.cli import main
from tests.service.process import Service

PAGE = Path(__file__).parents[2].joinpath("docs", "howto", "service.md").read_text()


def commands(place: int = 0) -> list[tuple[str, str]]:
    """Return every command of a transcript with what the page says it prints."""
    block = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)[place]
    entries = [entry.partition("\n") for entry in block.replace("\\\n", "").split("$ ")[1:]]
    return [(command, printed.strip()) for command, _, printed in entries]


def same(printed: str, expected: str) -> bool:
    """Return whether this was printed, where '...' stands for anything."""
    return re.fullmatch(re.escape(expected).replace(r"\.\.\.", ".*"), printed, re.DOTALL) is not None


@pytest.mark.skipif(shutil.which("curl") is None, reason="the transcript uses curl")
def test_the_transcript_is_what_happens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'keyhole.db'}"
    (install, greeting), (export, _), *asked, (verify, replayed) = commands()
    assert install.endswith("keyhole serve")
    assert export == "export KEYHOLE_TOKEN=$(keyhole token)"
    with Service(url, guarded=True) as service:
        greeting = greeting.replace(" keyhole.db", f" {tmp_path}/keyhole.db").replace(":8000", ":...")
        assert same("".join(service.greeting).strip(), greeting)
        assert main(["token", "show", "--database", url]) == 0
        token, id_ = capsys.readouterr().out.strip(), ""
        for command, expected in asked:
            known = command.replace("1-0-...", id_).replace("$KEYHOLE_TOKEN", token)
            words = shlex.split(known.replace("localhost:8000", service.url.removeprefix("http://")))
            assert words[0] == "curl"
            ran = subprocess.run([*words, "--noproxy", "*"], capture_output=True, text=True, check=True)  # noqa: S603
            assert same(ran.stdout.strip(), expected), ran.stdout
            made = re.search(r'"id":"(1-0-[0-9a-f]+)"', ran.stdout)
            id_ = made[1] if made else id_
    assert main([*verify.split()[1:], "--database", url]) == 0
    assert same(capsys.readouterr().out.strip(), replayed)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the transcript uses curl")
def test_a_stream_starts_from_a_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, history = f"sqlite:///{tmp_path / 'keyhole.db'}", tmp_path / "history.csv"
    history.write_text("label,invoice,letter,receipt\n" + "letter,0.7,0.2,0.1\n" * 500)
    (create, _), (calibrate, played) = commands(1)
    with Service(url) as service:
        create = create.replace("--oauth2-bearer $KEYHOLE_TOKEN ", "")
        words = shlex.split(create.replace("localhost:8000", service.url.removeprefix("http://")))
        subprocess.run([*words, "--noproxy", "*"], capture_output=True, check=True)  # noqa: S603
    program, *words = calibrate.split()
    assert program == "keyhole"
    assert main([*words[:-1], str(history), "--database", url]) == 0
    assert capsys.readouterr().out.strip() == played


@pytest.mark.skipif(shutil.which("curl") is None, reason="the transcript uses curl")
def test_a_stream_of_levels_is_asked(tmp_path: Path) -> None:
    with Service(f"sqlite:///{tmp_path / 'keyhole.db'}") as service:
        (create, _), *asked = commands(2)
        for command, expected in ((create, "..."), *asked):
            known = command.replace("--oauth2-bearer $KEYHOLE_TOKEN", "")
            words = shlex.split(known.replace("localhost:8000", service.url.removeprefix("http://")))
            ran = subprocess.run([*words, "--noproxy", "*"], capture_output=True, text=True, check=True)  # noqa: S603
            assert same(ran.stdout.strip(), expected), ran.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="the transcript uses curl")
def test_a_shadow_is_added_and_promoted(tmp_path: Path) -> None:
    with Service(f"sqlite:///{tmp_path / 'keyhole.db'}") as service:
        (create, _) = commands()[2]
        for command, expected in ((create, "..."), *commands(3)):
            known = command.replace("--oauth2-bearer $KEYHOLE_TOKEN", "")
            words = shlex.split(known.replace("localhost:8000", service.url.removeprefix("http://")))
            ran = subprocess.run([*words, "--noproxy", "*"], capture_output=True, text=True, check=True)  # noqa: S603
            assert same(ran.stdout.strip(), expected), ran.stdout
