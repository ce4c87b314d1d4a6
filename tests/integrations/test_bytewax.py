"""A real Bytewax on this machine, killed and started again from its recovery store."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("bytewax", reason="pip install 'keyhole-conformal[bytewax]'")

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, run_main

from keyhole.integrations.bytewax import KeyLogic, streams
from keyhole.keyed import Answered, Asked, Kind, Output, make_fold

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 120.0  # seconds, each time, on a machine however busy
START = 1_893_456_000_000
FOLD = make_fold(alpha=0.1, seed=3, lifetime=60_000)


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_key_is_folded_by_itself() -> None:
    events = [
        (f"key {n % 3}", event)
        for n in range(30)
        for event in (
            Asked(str(n), [0.5 + n / 100, 0.3, 0.1], START + n),
            Answered(str(n), label=n % 2, at=START + n),
        )
    ]
    written: list[tuple[str, Output]] = []
    flow = Dataflow("test")
    op.output(
        "out", streams("play", op.input("in", flow, TestingSource(events)), FOLD), TestingSink(written)
    )
    run_main(flow)
    for key in ("key 0", "key 1", "key 2"):
        _, outputs = FOLD.run(key, b"", [event for name, event in events if name == key])
        assert [one for name, one in written if name == key] == outputs


def test_a_key_asks_to_be_woken_when_its_next_round_expires_and_goes_on_from_its_snapshot() -> None:
    now = datetime(2030, 1, 1, 0, 1, tzinfo=UTC)
    logic = KeyLogic(FOLD, lambda: now, None)
    assert logic.notify_at() is None
    logic.on_batch([("a", Asked("1", [0.6, 0.4], START)), ("a", Asked("2", [0.6, 0.4], START + 5))])
    assert logic.notify_at() == now
    again = KeyLogic(FOLD, lambda: now, logic.snapshot())
    outputs, discard = again.on_notify()
    assert [(one.kind, one.id) for one in outputs] == [(Kind.EXPIRED, "1")]
    assert not discard
    assert again.notify_at() == now + timedelta(milliseconds=5)


def begin(folder: Path) -> "subprocess.Popen[bytes]":
    flow = f"{EXAMPLES / 'bytewax' / 'flow.py'}:make_flow({str(folder)!r})"
    recovery = str(folder / "recovery")
    command = [sys.executable, "-m", "bytewax.run", flow, "-r", recovery, "-s", "0", "-b", "0"]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603


def kill_halfway(folder: Path) -> bool:
    """Begin the flow and kill it; return False where it had ended before we looked."""
    job = begin(folder)
    end = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < end:
            if job.poll() is not None:
                assert job.returncode == 0, (folder / "log").read_text()[-3000:]
                return False
            if (folder / "sets.json").exists() and (folder / "sets.json").stat().st_size > 50_000:
                return True
            time.sleep(0.002)
        raise AssertionError("Bytewax wrote no sets in time")
    finally:
        if job.poll() is None:
            os.kill(job.pid, signal.SIGKILL)
            job.wait(timeout=PATIENCE)


def test_a_killed_flow_goes_on_bit_for_bit(tmp_path: Path) -> None:
    make_events = load(EXAMPLES / "spark" / "make_events.py")
    make_events.FILES = 60
    make_events.main(tmp_path)
    recovery = tmp_path / "recovery"
    recovery.mkdir()
    made = [sys.executable, "-m", "bytewax.recovery", str(recovery), "1"]
    subprocess.run(made, check=True, timeout=PATIENCE)  # noqa: S603
    assert kill_halfway(tmp_path)
    lines = (tmp_path / "sets.json").read_text().count("\n")
    again = begin(tmp_path)
    try:
        assert again.wait(timeout=PATIENCE) == 0, (tmp_path / "log").read_text()[-3000:]
    finally:
        if again.poll() is None:
            os.kill(again.pid, signal.SIGKILL)
    flow = load(EXAMPLES / "bytewax" / "flow.py")
    events: dict[str, list[Any]] = {}
    for line in (tmp_path / "events.json").read_text().splitlines():
        shop, event = flow.read_event(line)
        events.setdefault(shop, []).append(event)
    expected = {
        shop: [json.loads(flow.write_output(shop, one)) for one in flow.FOLD.run(shop, b"", mine)[1]]
        for shop, mine in events.items()
    }
    rows = [json.loads(line) for line in (tmp_path / "sets.json").read_text().splitlines()]
    assert 0 < lines < len(rows)
    assert {shop: [row for row in rows if row["shop"] == shop] for shop in expected} == expected
