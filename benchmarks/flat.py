"""What must stay flat: ``python benchmarks/flat.py [--streams 6000] [--rounds 1000000]``.

On SQLite, in a process of its own: a start, ``/metrics``, the list of streams and a stream's history;
first with few streams and rounds, then with many. Streams and rounds are copies, made by SQL.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from keyhole.service.store.sql import schema
from keyhole.service.store.sql.backend import Statement, Transaction, read_scalar
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import Table
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import SNAPSHOT_EVERY, Reply
from keyhole.service.store.streams.proposals import Query
from keyhole.service.store.streams.stream import find_stream, write_stream

TRIES, SECONDS = 5, 120.0


def fill(database: Database, *, count: int, rounds: int) -> None:
    """Make so many streams, and let the first have so many answered rounds."""
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1, seed=7)
    registry.create(database, "first", setup=setup, now=1.0)
    for _ in range(SNAPSHOT_EVERY):
        (made,) = proposals.predict(database, "first", asks=[Query({"a": 0.7, "b": 0.3})], now=1.0)
        answers.answer(database, [Reply(made.id, {"label": "a"})], now=1.0)
    with database.write() as transaction:
        _copy_rounds(transaction, rounds)
        _copy_streams(transaction, count)


def _copy_rounds(transaction: Transaction, rounds: int) -> None:
    """Repeat the log until it has so many rounds; the row says so too."""
    size = SNAPSHOT_EVERY
    while size < rounds:
        more = min(size, rounds - size)
        for table in (schema.rounds, schema.answers):
            _shift(transaction, table, "number", by=size, below=more)
        _shift(transaction, schema.snapshots, "answered", by=size, below=more + 1)
        size += more
    kept = find_stream(transaction, "first")
    kept.tally.predicted = kept.tally.answered = rounds
    kept.tally.weight = float(rounds)
    kept.version = 2 * rounds
    write_stream(transaction, kept)


def _shift(transaction: Transaction, table: Table[Any], key: str, *, by: int, below: int) -> None:
    """Copy the first rows of a table, so many rounds later."""
    moved = {key: by, "version": 2 * by}
    columns = [f'"{one.name}" + {moved.get(one.name, 0)}' if one.name in moved else f'"{one.name}"'
               for one in table.columns]  # fmt: skip
    text = f"INSERT INTO {table.name} SELECT {', '.join(columns)} FROM {table.name} WHERE {key} < ?"
    transaction.execute(Statement(text, read_scalar), below)


def _copy_streams(transaction: Transaction, count: int) -> None:
    kept = 'setup, lifetime, "window", created, version, progress, next_expiry, recent, link'
    text = (
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
        f"INSERT INTO streams (name, seed, {kept}) SELECT 'copy-' || i, i, {kept} FROM streams, n"
    )
    if count > 1:
        transaction.execute(Statement(text, read_scalar), count)


def measure(url: str) -> dict[str, float]:
    """Return the seconds of a start and of each request."""
    port, begun = 18_731, time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "keyhole",
        "serve",
        "--open",
        "--port",
        str(port),
        "--database",
        url,
    ]
    environment = {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS) as client:
                _wait(client)
                found = {"start": time.perf_counter() - begun, "of it CPU": _read_cpu(process.pid)}
                for name, path in (
                    ("metrics", "/metrics"),
                    ("list", "/v1/streams"),
                    ("history", "/v1/streams/first/history"),
                    ("rounds", "/v1/streams/first/rounds"),
                ):
                    found[name] = statistics.median(_time(client, path) for _ in range(TRIES))
        finally:
            process.terminate()
    return found


def _read_cpu(process: int) -> float:
    """Return the seconds a process has computed; where others compute too, these tell more."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait(client: httpx.Client) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            if client.get("/readyz").is_success:
                return
        except httpx.TransportError:
            time.sleep(0.01)
    raise TimeoutError("the service did not start")


def _time(client: httpx.Client, path: str) -> float:
    begun = time.perf_counter()
    client.get(path).raise_for_status()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=6_000)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    options = parser.parse_args()
    print(f"{'streams':>8} {'rounds':>10}   seconds")
    for count, rounds in ((1, SNAPSHOT_EVERY), (options.streams, SNAPSHOT_EVERY), (1, options.rounds)):
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{Path(folder) / 'keyhole.db'}"
            database = Database(url)
            fill(database, count=count, rounds=rounds)
            database.close()
            found = measure(url)
        shown = "   ".join(f"{name} {seconds:.3f}" for name, seconds in found.items())
        print(f"{count:>8,} {rounds:>10,}   {shown}", flush=True)


if __name__ == "__main__":
    main()
