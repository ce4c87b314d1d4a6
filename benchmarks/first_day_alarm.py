"""The alarm: new streams that raise one, failures that are found, and what is claimed of chance.

Healthy streams are new and do not change: eight vague classes whose probabilities are right, and
intervals around forecasts with normal errors. The same streams break after 1,500 rounds, and again
after 3,000: labels are random for 300 rounds, errors become ten times as large for good.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from keyhole import MISS, Predictor, ScaledResiduals
from keyhole.predictor.monitor import Monitor, Watch, bound_rate

ALPHA = 0.1
ARRIVALS = {"at once": (0, 1), "20 late": (20, 1), "50 late": (50, 1), "200 late": (200, 1)}
ARRIVALS |= {"1,000 late": (1_000, 1), "batches of 24": (0, 24), "batches of 100": (0, 100)}


class Raised(NamedTuple):
    """An alarm: at which answer it was raised, since when it says, until when (0: still on)."""

    at: int
    since: int
    kind: str
    until: int


def draw_labels(rounds: int, seed: int, breaks: tuple[int, ...]) -> Iterator[tuple[Any, int]]:
    """Yield probabilities and a label drawn from them; for 300 rounds after a break it is random."""
    rng = np.random.default_rng(seed)
    outputs = rng.dirichlet([0.35] * 8, size=rounds)
    labels = (outputs.cumsum(axis=1) > rng.random((rounds, 1))).argmax(axis=1)
    for start in breaks:
        labels[start : start + 300] = rng.integers(8, size=300)
    yield from zip(outputs, labels.tolist(), strict=True)


def draw_values(rounds: int, seed: int, breaks: tuple[int, ...]) -> Iterator[tuple[Any, float]]:
    """Yield forecasts and what happened; every break makes errors ten times as large."""
    rng = np.random.default_rng(seed)
    forecasts = rng.normal(size=rounds) * 10.0
    scales = 2.0 * 10.0 ** np.searchsorted(breaks, np.arange(rounds), side="right")
    yield from zip(
        forecasts.tolist(), (forecasts + rng.normal(size=rounds) * scales).tolist(), strict=True
    )


STREAMS = {"labels": draw_labels, "intervals": draw_values}


def play(
    kind: str, seed: int, arrival: tuple[int, int], *, rounds: int, breaks: tuple[int, ...] = ()
) -> list[Raised]:
    """Return the alarms of a new stream; a miss of a set of labels is told without its label."""
    score: Any = {"score": ScaledResiduals()} if kind == "intervals" else {}
    predictor: Any = Predictor(alpha=ALPHA, watch=True, **score)
    late, batch = arrival
    waiting: list[tuple[Any, Any]] = []
    found: list[Raised] = []
    for output, label in STREAMS[kind](rounds, seed, breaks):
        waiting.append((predictor.predict(output), label))
        if len(waiting) < late + batch:
            continue
        due, waiting = waiting[:batch], waiting[batch:]
        for shown, true in due:
            if kind == "labels" and true not in shown:
                predictor.learn(shown, MISS)
            else:
                predictor.learn(shown, label=true)
            watch = predictor._progress.watch  # noqa: SLF001 - the property copies it
            if watch.alarms > len(found):
                found.append(Raised(watch.raised, watch.since, watch.alarm.name, 0))
            elif found and watch.cleared == watch.rounds:
                found[-1] = found[-1]._replace(until=watch.cleared)
    return found


def print_healthy(streams: int) -> None:
    print(f"  healthy new streams that alarm in their first 2,000 rounds, of {streams} each")
    for name, arrival in ARRIVALS.items():
        alarmed = {
            kind: sum(bool(play(kind, seed, arrival, rounds=2_000)) for seed in range(streams))
            for kind in STREAMS
        }
        print(
            f"    {name:<15}" + "   ".join(f"{kind} {count}" for kind, count in alarmed.items()),
            flush=True,
        )


def print_failures(streams: int) -> None:
    print("  broken at 1,500 and at 3,000: answers until it was found, then until that alarm ended")
    for name, arrival in ARRIVALS.items():
        for kind in STREAMS:
            rows = [
                play(kind, seed, arrival, rounds=4_500, breaks=(1_500, 3_000))
                for seed in range(streams)
            ]
            cells = []
            for start, end in ((1_500, 3_000), (3_000, 4_500)):
                first = [
                    next((one for one in row if start < one.at <= end and one.kind == "TOO_MANY"), None)
                    for row in rows
                ]
                seen = [one for one in first if one is not None]
                after = f"{np.median([one.at - start for one in seen]):.0f}" if seen else "-"
                lasts = [one.until - one.at for one in seen if one.until]
                ended = f"{np.median(lasts):.0f}" if lasts else "-"
                cells.append(f"{len(seen)} of {streams} after {after}, ended after {ended}")
            more = sum(len(row) for row in rows)
            print(f"    {name:<15}{kind:<10} {cells[0]}; {cells[1]}; {more} alarms in all", flush=True)


def print_chances(runs: int, rounds: int) -> None:
    print(f"  answers of a chance, misses at {ALPHA}: {runs} runs of {rounds:,} rounds")
    rng = np.random.default_rng(3)
    for hit, miss in ((0.5, 0.5), (0.2, 0.2), (0.05, 0.05), (1.0, 0.5), (0.2, 1.0)):
        alarms, left_out, monitor = 0, 0, Monitor(alpha=ALPHA)
        for _ in range(runs):
            watch, missed, weight, out = Watch(), 0.0, 0.0, False
            draws = rng.random((rounds, 2)).tolist()
            for number, (outcome, told) in enumerate(draws):
                is_miss = outcome < ALPHA
                chance = miss if is_miss else hit
                if told < chance:
                    monitor.observe(watch, float(is_miss), 1.0 / chance)
                    missed, weight = missed + is_miss / chance, weight + 1.0 / chance
                if number % 50 == 49 and weight:
                    low, high = bound_rate(watch.scale * missed, watch.scale * weight)
                    out = out or not low <= ALPHA <= high
            alarms, left_out = alarms + watch.alarms, left_out + out
        print(
            f"    hits told with {hit:g}, misses with {miss:g}: {alarms} false alarms; the band of 1 % "
            f"error leaves out the true rate in {left_out / runs:.1%} of the runs",
            flush=True,
        )


def print_tables(*, quick: bool) -> None:
    print_healthy(10 if quick else 200)
    print_failures(3 if quick else 20)
    print_chances(*((50, 1_000) if quick else (400, 5_000)))
