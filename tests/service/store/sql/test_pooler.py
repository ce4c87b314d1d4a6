"""A pooler between the service and PostgreSQL is refused at the start, whatever its mode."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from keyhole.errors import DatabaseError
from keyhole.service.store.sql.database import Database
from tests.patience import SECONDS
from tests.service.serving import wait_until

PROGRAM = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
pytestmark = pytest.mark.skipif(not Path(PROGRAM).exists(), reason="there is no PgBouncer here")
PORT = 28_779


@contextmanager
def pooling(url: str, folder: Path, settings: str) -> Iterator[str]:
    """Run PgBouncer in front of a database; give the URL that leads through it."""
    found, config = conninfo_to_dict(url), folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\npooled = host={found['host']} dbname={found['dbname']} user={found['user']}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {PORT}\nauth_type = any\n"
        f"unix_socket_dir =\n{settings}\n"
    )
    # Not as root, which it refuses, but as whoever may use the socket.
    as_user = ["-u", Path(str(found["host"])).owner()] if os.geteuid() == 0 else []
    for one in (config, *config.parents[:3]):
        with suppress(PermissionError):
            one.chmod(0o755)
    pooler = subprocess.Popen([PROGRAM, "-q", *as_user, str(config)], stderr=subprocess.DEVNULL)  # noqa: S603
    through = f"postgresql://anybody@127.0.0.1:{PORT}/pooled"

    def answers() -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(through) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
        return False

    try:
        wait_until(answers)
        yield through
    finally:
        pooler.kill()
        pooler.wait(SECONDS)


@pytest.mark.parametrize("mode", ["transaction", "session"])
@pytest.mark.parametrize("more", ["", "ignore_startup_parameters = options"])
def test_a_pooler_is_named_and_nothing_is_started(
    postgres: Callable[[], str], tmp_path: Path, mode: str, more: str
) -> None:
    """Kills: a service whose timeouts are dropped, and whose statements were prepared elsewhere."""
    url = postgres()
    with (
        pooling(url, tmp_path, f"pool_mode = {mode}\n{more}") as through,
        pytest.raises(DatabaseError, match="goes through a pooler"),
    ):
        Database(through)
    Database(url).close()
