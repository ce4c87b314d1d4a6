"""Intervals around forecasts beside the libraries that PyPI has, in one run.

    python benchmarks/forecasts.py [--prices hourly_prices.npz] [--quick] [--keep peers.jsonl]

Every method gets the same forecasts and truths, a batch at a time: nothing of a batch is told before
all of it is predicted. The first 56 batches are for calibration and are not judged. statsforecast and
darts make forecasts of their own; Keyhole's rows beside theirs use those, and are judged from the
28th day on, since they have no earlier ones to start from. The peers live in
.venv-forecasts and .venv-online, made at the first run. What a peer has said is kept in the file of
``--keep`` as soon as it is there, and not asked for again, so that a run can be stopped and resumed;
``--only TEXT`` runs the peers whose names hold a text, and prints all that are kept.

Streams: an hourly load that we make, whose spread follows the hour and grows; and with ``--prices`` a
file of hourly prices with two published forecasts, arrays ``price``, ``linear``, ``network`` and
``hour`` (hours since 1970).
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from keyhole.integrations.frames import SeriesPredictors, evaluate
from keyhole.numeric import Array

ROOT = Path(__file__).parents[1]
ALPHA, BATCH, START = 0.1, 24, 56
WAIT = 28  # days before a peer's own forecasts are judged: there are none of them to calibrate on
FAMILIES: dict[str, tuple[list[str], list[str]]] = {
    ".venv-forecasts": (
        ["crepes==0.9.1", "mapie==1.6.0", "statsforecast==2.1.1", "darts[notorch]==0.48.1"],
        ["crepes, all residuals", "crepes, last 56 batches", "MAPIE EnbPI", "MAPIE ACI"],
    ),
    ".venv-online": (
        ["online-conformal==1.0.2", "setuptools<81"],
        ["online-conformal SAOCP", "online-conformal SF-OGD", "online-conformal FACI"],
    ),
}
THEIR_FORECASTS = ["statsforecast", "darts", "darts, asymmetric"]
OURS: dict[str, dict[str, Any]] = {
    "keyhole": {},
    "keyhole, features=None": {"features": None},
    "keyhole, asymmetric": {"asymmetric": True},
}


def make_load(days: int) -> tuple[Array, Array]:
    """Return an hourly load and a forecast of it: the same hours of the week before."""
    rng = np.random.default_rng(11)
    hours = np.arange(24 * days)
    shape = 100 + 30 * np.sin(2 * np.pi * hours / 24) + 10 * (hours // 24 % 7 >= 5)
    weather = np.zeros(days)
    for day in range(1, days):
        weather[day] = 0.8 * weather[day - 1] + 4 * rng.normal()
    spread = (2 + 4 * (np.sin(2 * np.pi * hours / 24) > 0)) * (1 + hours / hours.size)
    load = shape + np.repeat(weather, 24) + spread * rng.gamma(2.0, 0.7, size=hours.size)
    return load, np.concatenate((load[: 7 * 24], load[: -7 * 24]))


def make_streams(prices: Path | None, *, quick: bool) -> dict[str, dict[str, Any]]:
    load, naive = make_load(120 if quick else 500)
    streams = {"load, week before": _make_stream(load, naive, first=0)}
    if prices is not None:
        held = np.load(prices)
        rows = slice(None, 24 * 160) if quick else slice(None)
        truth, first = held["price"][rows].astype(float), int(held["hour"][0])
        for name in ("linear", "network"):
            forecast = held[name][rows].astype(float)
            streams[f"prices, {name}"] = _make_stream(truth, forecast, first=first)
    return streams


def _make_stream(truth: Array, forecast: Array, *, first: int) -> dict[str, Any]:
    return {
        "truth": truth.tolist(),
        "forecast": forecast.tolist(),
        "batch": BATCH,
        "first": first,
    }


def make_table(stream: dict[str, Any], forecast: list[float]) -> pd.DataFrame:
    hours = stream["first"] + np.arange(len(stream["truth"]))
    times = pd.to_datetime(hours, unit="h")
    cutoffs = pd.to_datetime(hours[0] + np.arange(hours.size) // BATCH * BATCH - 1, unit="h")
    return pd.DataFrame(
        {"unique_id": "a", "ds": times, "cutoff": cutoffs, "M": forecast, "y": stream["truth"]}
    )


def play_ours(
    stream: dict[str, Any], forecast: list[float]
) -> Iterator[tuple[str, pd.DataFrame, float]]:
    table = make_table(stream, forecast).dropna()
    for name, options in OURS.items():
        began = time.perf_counter()
        added = SeriesPredictors(alpha=ALPHA, seed=1, **options).add_intervals(table, "M")
        yield name, added, time.perf_counter() - began


def judge(table: pd.DataFrame, start: pd.Timestamp) -> dict[str, float]:
    """Return the figures of what comes after the start."""
    return dict(evaluate(table[table["ds"] >= start]).iloc[0])


def find_python(home: str, packages: list[str]) -> Path:
    """Return the interpreter of these peers, installed if they are not."""
    folder = ROOT / home
    interpreter = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print(f"installing {', '.join(packages)} into {home}, which takes some minutes", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--prefer-binary", *packages], check=True)
        (folder / "ready").touch()
    return interpreter


def play_peers(streams: dict[str, Any], kept: Path | None, only: str) -> list[dict[str, Any]]:
    """Return what every peer says of every stream; what was kept of an earlier run is not run again."""
    rows = _read_kept(kept, streams)
    done = {(row["stream"], row["peer"]) for row in rows}
    for home, (packages, peers) in FAMILIES.items():
        asked = [*peers, *(THEIR_FORECASTS if home == ".venv-forecasts" else [])]
        for stream, peer in ((stream, peer) for stream in streams for peer in asked if only in peer):
            if (stream, peer) in done:
                continue
            script = str(Path(__file__).with_name("peer_forecasts.py"))
            command = [str(find_python(home, packages)), script, peer]
            given = json.dumps({stream: streams[stream]})
            ran = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
            lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
            rows += [json.loads(line) for line in lines]
            if kept is not None:
                with kept.open("a") as file:
                    file.writelines(f"{line}\n" for line in lines)
    return rows


def _read_kept(kept: Path | None, streams: dict[str, Any]) -> list[dict[str, Any]]:
    if kept is None or not kept.exists():
        return []
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    for row in rows:
        size = len(streams[row["stream"]]["truth"]) if row["stream"] in streams else None
        if "lower" in row and size not in (None, len(row["lower"])):
            sys.exit(f"{kept} is of another run, of {len(row['lower'])} rows; give another file")
    return rows


def print_row(stream: str, name: str, figures: dict[str, float], seconds: float) -> None:
    print(
        f"{stream:<22} {name:<26} {figures['coverage']:>8.4f} {figures['worst_window']:>7.3f} "
        f"{figures['width']:>7.2f} {figures['interval_score']:>7.2f} {figures['unbounded']:>9.4f} "
        f"{seconds:>8.1f}",
        flush=True,
    )


def print_stream(name: str, stream: dict[str, Any], peers: list[dict[str, Any]]) -> None:
    """Print a row for each method, on the given forecasts and on those that peers have made."""
    start = make_table(stream, stream["forecast"])["ds"][START * BATCH]
    bases = {name: (stream["forecast"], start, [one for one in peers if one.get("forecast") is None])}
    for one in peers:
        if one.get("forecast") is not None and "asymmetric" not in one["peer"]:
            theirs = [row for row in peers if row["peer"].startswith(one["peer"])]
            bases[f"  by {one['peer']}"] = one["forecast"], start + pd.Timedelta(days=WAIT), theirs
    for base, (forecast, judged, rows) in bases.items():
        for method, added, seconds in play_ours(stream, forecast):
            print_row(base, method, judge(added, judged), seconds)
        for row in rows:
            if "failed" in row:
                print(f"{base:<22} {row['peer']:<26} failed: {row['failed'][:60]}", flush=True)
                continue
            table = make_table(stream, forecast)
            table["M-lo-90"], table["M-hi-90"] = row["lower"], row["upper"]
            print_row(base, row["peer"], judge(table, judged), row["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--prices", type=Path, help="hourly_prices.npz, where it is at hand")
    parser.add_argument("--quick", action="store_true", help="fewer days")
    parser.add_argument("--keep", type=Path, help="a file for what peers have said, to resume from")
    parser.add_argument("--only", default="", help="run the peers whose names hold this text")
    given = parser.parse_args()
    streams = make_streams(given.prices, quick=given.quick)
    peers = play_peers(streams, given.keep, given.only)
    print(
        f"{'stream':<22} {'method':<26} {'coverage':>8} {'worst w':>7} {'width':>7} {'score':>7} "
        f"{'unbounded':>9} {'seconds':>8}"
    )
    for name, stream in streams.items():
        print_stream(name, stream, [one for one in peers if one["stream"] == name])


if __name__ == "__main__":
    main()
