"""The scripts and commands of deploy/ as they run: on a real PostgreSQL, on a live file, by tools."""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
import yaml

import keyhole
from keyhole.cli import main
from keyhole.service.client.client import Client
from tests.deploy.image import read_lines
from tests.patience import SECONDS
from tests.service.cluster import ask, start_server, tell
from tests.service.process import Service

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ROUNDS = 12


class Server(NamedTuple):
    """A PostgreSQL in which ``postgres-role.sh`` was run, where its programs and its socket are."""

    superuser: str
    url: str  # of the service's role
    environment: dict[str, str]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="keyhole-deploy-"))
    made = start_server(folder)
    socket = str(made.get_postmaster_info().socket_dir)
    environment = {
        **os.environ,
        "PATH": f"{made.bin_path}:{os.environ['PATH']}",
        "PGHOST": socket,
        "KEYHOLE_PASSWORD": "it's secret",
    }
    run("postgres-role.sh", environment)
    url = f"postgresql://keyhole:it%27s%20secret@/keyhole?host={socket}"
    yield Server(made.get_uri(), url, environment)
    made.cleanup()


@pytest.fixture(scope="module")
def service(server: Server) -> Iterator[Service]:
    with Service(server.url) as made:
        play(made)
        yield made


def play(service: Service) -> None:
    with Client(service.url, timeout=SECONDS) as client:
        client.create_stream("mail", alpha=0.1)
        for _ in range(ROUNDS):
            client.learn(client.predict("mail", {"letter": 0.7, "bill": 0.2}), keyhole.MISS)


def run(
    script: str, environment: dict[str, str], *words: str, check: bool = True
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        ["bash", str(DEPLOY / script), *words],  # noqa: S607
        env=environment,
        check=check,
        capture_output=True,
        text=True,
        timeout=4 * SECONDS,
    )


def backing_up(server: Server, folder: Path, **more: str) -> dict[str, str]:
    """The environment that compose.yaml gives the script, for this server and this folder."""
    role = {"PGUSER": "keyhole", "PGDATABASE": "keyhole", "PGPASSWORD": "it's secret"}
    return {**server.environment, **role, "BACKUPS": str(folder), **more}


def put_first(environment: dict[str, str], folder: Path, program: str, script: str) -> dict[str, str]:
    """Let a program be this script."""
    folder.mkdir()
    path = folder / program
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)
    return {**environment, "PATH": f"{folder}:{environment['PATH']}"}


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.dump"))


@pytest.mark.usefixtures("service")
def test_the_service_works_as_a_role_that_is_no_superuser_and_can_run_no_program(
    server: Server,
) -> None:
    powers = "SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication FROM pg_roles"
    assert ask(server.url, f"{powers} WHERE rolname = current_user") is False
    assert ask(server.url, "SELECT count(*) FROM answers") == ROUNDS
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        tell(server.url, "COPY (SELECT 1) TO PROGRAM 'true'")


@pytest.mark.usefixtures("service")
def test_a_dump_of_a_live_service_is_read_back_restores_and_verifies_and_generations_are_kept(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for year in (2020, 2021, 2022):
        (tmp_path / f"keyhole-{year}0101T000000Z.dump").touch()
    told = run("backup.sh", backing_up(server, tmp_path, KEEP="2"), "once").stdout
    kept, made = list_names(tmp_path)
    assert kept == "keyhole-20220101T000000Z.dump"
    assert told.strip() == str(tmp_path / made)
    tell(server.superuser, "CREATE DATABASE again OWNER keyhole")
    restored = server.url.replace("/keyhole?", "/again?")
    subprocess.run(  # noqa: S603
        ["pg_restore", "--dbname", restored, str(tmp_path / made)],  # noqa: S607
        env=server.environment,
        check=True,
        timeout=4 * SECONDS,
    )
    assert main(["verify", "--database", restored]) == 0
    assert f"{ROUNDS} rounds" in capsys.readouterr().out


@pytest.mark.usefixtures("service")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_the_backup_of_compose_is_no_root_and_writes_to_the_volume_that_it_is_given(
    server: Server, tmp_path: Path
) -> None:
    containers = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    backup, folder = containers["backup"], containers["backup-folder"]
    assert backup["depends_on"]["backup-folder"] == {"condition": "service_completed_successfully"}
    assert folder["image"] == backup["image"]  # so that both know the same user
    assert "cap_add" not in backup
    # Here the volume is a folder, as root makes it, and another user stands for the image's.
    volume, owner = tmp_path / "backups", f"--owner={backup['user']}"
    volume.mkdir(mode=0o700)
    nobody = str(pwd.getpwnam("nobody").pw_uid)
    given = {owner: f"--owner={nobody}", "/backups": str(volume)}
    assert set(given) <= set(folder["entrypoint"])
    kept = ",".join(f"+{power.lower()}" for power in folder["cap_add"])
    run_as("root", f"-all,{kept}", [given.get(word, word) for word in folder["entrypoint"]])
    # Whom PATH leads through folders of root's may read those, and no more.
    script = [*backup["entrypoint"][:1], str(DEPLOY / "backup.sh"), "once"]
    run_as(nobody, "-all,+dac_read_search", script, backing_up(server, volume))
    (made,) = volume.glob("*.dump")
    assert (made.stat().st_uid, made.stat().st_mode & 0o777) == (int(nobody), 0o600)
    assert volume.stat().st_mode & 0o777 == 0o755  # The service sees the age of what it may not read.


def run_as(
    user: str, powers: str, command: list[str], environment: dict[str, str] | None = None
) -> None:
    limits = [f"--{kind}={powers}" for kind in ("inh-caps", "ambient-caps", "bounding-set")]
    became = [f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs", *limits]
    subprocess.run(  # noqa: S603
        ["setpriv", *became, *command],  # noqa: S607
        env=environment,
        check=True,
        timeout=4 * SECONDS,
    )


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("broken", ["pg_dump", "pg_restore"])
def test_a_dump_that_fails_or_cannot_be_read_back_is_told_and_takes_the_place_of_none(
    server: Server, tmp_path: Path, broken: str
) -> None:
    for year in (2020, 2021, 2022):
        (tmp_path / f"keyhole-{year}0101T000000Z.dump").touch()
    before = list_names(tmp_path)
    environment = put_first(backing_up(server, tmp_path, KEEP="1"), tmp_path / "bin", broken, "exit 1")
    assert run("backup.sh", environment, "once", check=False).returncode == 1
    assert list_names(tmp_path) == before
    # As the container runs it, it says so and waits; here the waiting ends it.
    stopped = put_first(environment, tmp_path / "sleeps", "sleep", 'echo "waits $1"; exit 7')
    ended = run("backup.sh", stopped, check=False)
    assert (ended.returncode, ended.stdout) == (7, "waits 3600\n")
    assert "the backup failed: no earlier one was deleted" in ended.stderr
    assert list_names(tmp_path) == before


def test_the_command_of_the_backup_unit_copies_a_live_file_that_verifies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = (DEPLOY / "keyhole-backup.service").read_text()
    (command,) = re.findall(r"^ExecStart=\S+/keyhole (.*)$", unit, re.MULTILINE)
    with Service(f"sqlite:///{tmp_path / 'keyhole.db'}") as service:
        play(service)
        command = command.replace("/var/lib/keyhole-backup", str(tmp_path / "copies"))
        command = command.replace("/var/lib/keyhole", str(tmp_path))
        (tmp_path / "copies").mkdir()
        assert main(command.split()) == 0
    (copy,) = (tmp_path / "copies").glob("*.db")
    capsys.readouterr()
    assert main(["verify", "--database", f"sqlite:///{copy}"]) == 0
    assert f"{ROUNDS} rounds" in capsys.readouterr().out


def call(tool: str, *words: str | Path) -> str:
    """Return what a tool of the system says, which must be content; skip where there is none."""
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"there is no {tool} here")
    done = subprocess.run(  # noqa: S603
        [found, *words], check=False, capture_output=True, text=True, timeout=4 * SECONDS
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def test_prometheus_takes_its_configuration_and_every_alert(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("kh_secret")
    config = (DEPLOY / "prometheus.yaml").read_text()
    place = yaml.safe_load(config)["scrape_configs"][0]["authorization"]["credentials_file"]
    (tmp_path / "prometheus.yaml").write_text(config.replace(place, str(tmp_path / "token")))
    shutil.copy(DEPLOY / "alerts.yaml", tmp_path)
    assert "SUCCESS" in call("promtool", "check", "config", tmp_path / "prometheus.yaml")


def test_alertmanager_takes_its_configuration() -> None:
    assert "SUCCESS" in call("amtool", "check-config", DEPLOY / "alertmanager.yaml")


def test_systemd_takes_every_unit(tmp_path: Path) -> None:
    units = [*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")]
    for unit in units:
        there = unit.read_text().replace("/opt/keyhole/bin/keyhole", "/bin/true")
        (tmp_path / unit.name).write_text(there)
    assert call("systemd-analyze", "verify", *(tmp_path / unit.name for unit in units)) == ""


@pytest.mark.parametrize(
    ("service", "program"), [("prometheus", "prometheus"), ("alertmanager", "prometheus-alertmanager")]
)
def test_compose_starts_what_others_make_with_options_that_they_have(
    service: str, program: str
) -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    known = call(program, "--help")
    for option in compose["services"][service]["command"]:
        assert option.partition("=")[0] in known


def test_compose_and_the_image_start_the_service_with_settings_that_it_has() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert "command" not in compose["services"]["keyhole"]  # It is the image's own.
    source = (DEPLOY.parent / "src/keyhole/service/commands.py").read_text()
    for name in compose["services"]["keyhole"]["environment"]:
        assert f'"{name}"' in source
    (start,) = (line for line in read_lines() if line.startswith("CMD "))
    assert _parses(yaml.safe_load(start.removeprefix("CMD ")))


def _parses(command: Sequence[str]) -> bool:
    from keyhole.cli import _parser

    return bool(_parser().parse_args([*command]).run)
