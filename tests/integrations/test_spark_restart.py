"""A real Spark on this machine, killed in the middle of a batch and started again."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="Spark is tested by: make test-spark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java 17; install openjdk-17-jre-headless", allow_module_level=True)

from keyhole.keyed import Answered, Asked, Event, Kind, make_fold

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark"
PATIENCE = 400.0  # seconds, each time, on a machine however busy
HOUR = 3_600_000


def write_events(folder: Path) -> None:
    spec = importlib.util.spec_from_file_location("make_events", EXAMPLE / "make_events.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.FILES = 4
    module.main(folder)


def begin(folder: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, str(EXAMPLE / "job.py"), str(folder)]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603


def count(folder: Path) -> int:
    return sum(path.name.isdigit() for path in folder.glob("*"))


def is_within_a_batch(folder: Path, job: "subprocess.Popen[bytes]") -> bool:
    """Wait until a batch is done and another has begun, but is not done; not if all are done before."""
    end = time.monotonic() + PATIENCE
    checkpoint = folder / "checkpoint"
    while time.monotonic() < end:
        if count(checkpoint / "offsets") > count(checkpoint / "commits") >= 1:
            return True
        if job.poll() is not None:
            assert job.returncode == 0, (folder / "log").read_text()[-3000:]
            return False
        time.sleep(0.01)
    raise AssertionError("Spark did not come to its second batch in time")


def kill_within_a_batch(folder: Path) -> bool:
    """Begin the query and kill it; return False where it had ended before we looked."""
    write_events(folder)
    job = begin(folder)
    try:
        return is_within_a_batch(folder, job)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait(timeout=PATIENCE)


def read_lines(folder: Path) -> list[dict[str, Any]]:
    lines = (path.read_text().splitlines() for path in sorted(folder.glob("*.json")))
    return [json.loads(line) for part in lines for line in part]


Rounds = dict[tuple[str, str], float]


def fold_here(folder: Path) -> tuple[Rounds, Rounds]:
    """Return the thresholds of rounds, and the misses of those answered, by a fold of this process."""
    from datetime import datetime

    def ms(row: dict[str, Any]) -> int:
        return int(datetime.fromisoformat(row["at"]).timestamp() * 1000)

    events: dict[str, list[Event]] = {}
    for row in read_lines(folder / "asks"):
        events.setdefault(row["shop"], []).append(Asked(row["id"], row["output"], at=ms(row)))
    for row in read_lines(folder / "answers"):
        events[row["shop"]].append(Answered(row["id"], label=row["label"], at=ms(row)))
    fold = make_fold(alpha=0.1, seed=7, lifetime=HOUR)
    thresholds: Rounds = {}
    misses: Rounds = {}
    for shop, mine in events.items():
        mine.sort(key=lambda event: (event.at, not isinstance(event, Asked)))
        for one in fold.run(shop, b"", mine)[1]:
            if one.kind is Kind.SHOWN and one.region is not None:
                thresholds[shop, one.id] = one.region.threshold
            if one.kind is Kind.COUNTED and one.miss is not None:
                misses[shop, one.id] = one.miss
    return thresholds, misses


def test_a_killed_query_goes_on_bit_for_bit(tmp_path: Path) -> None:
    folder = next(one for turn in range(5) if kill_within_a_batch(one := tmp_path / str(turn)))
    again = begin(folder)
    try:
        assert again.wait(timeout=PATIENCE) == 0, (folder / "log").read_text()[-3000:]
    finally:
        if again.poll() is None:
            os.killpg(again.pid, signal.SIGKILL)
    rows = read_lines(folder / "all")
    shown = [(row["shop"], row["id"]) for row in rows if row["kind"] == "shown"]
    expired = [(row["shop"], row["id"]) for row in rows if row["kind"] == "expired"]
    thresholds, misses = fold_here(folder)
    unanswered = set(thresholds) - set(misses)
    assert len(shown) == len(set(shown))
    assert {(r["shop"], r["id"]): r["threshold"] for r in rows if r["kind"] == "shown"} == thresholds
    assert sorted(expired) == sorted(unanswered)
    counted = [row for row in rows if row["kind"] == "counted"]
    assert len(counted) == len(misses)
    assert {(row["shop"], row["id"]): row["miss"] for row in counted} == misses
    assert {row["kind"] for row in rows} == {"shown", "counted", "expired"}
