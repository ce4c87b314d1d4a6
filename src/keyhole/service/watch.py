"""Is the promise kept? An alert for each stream, and numbers for Prometheus.

The alert is an exact binomial test of the last window: if every round missed with chance alpha,
independently of the others, at least (at most) this many misses would come with a probability below
0.001. Windows that do not overlap then give a false alarm once in 500 each; an alert that is looked at
after every round sees overlapping windows, and so is on for a thousandth of the time each way. A
learner that corrects itself makes its misses spread more evenly than that, and the alarms rarer.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from keyhole.store.standing import Standing

LEVEL = 0.001
_FEWEST_ROUNDS = 50
_SIZES = (0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)


class Alert(StrEnum):
    """What the last window says of the promise."""

    EARLY = "too early to say"
    KEPT = "kept"
    TOO_MANY = "too many misses"
    TOO_FEW = "fewer misses than alpha"


@dataclass(frozen=True)
class Verdict:
    """An alert and the probability of as many, or as few, misses."""

    alert: Alert
    p_value: float | None


def verdict(here: Standing) -> Verdict:
    """Return what the last window of a stream says."""
    return judge(here.recent_misses, here.recent_rounds, alpha=here.blueprint.learner.alpha)


def judge(misses: int, rounds: int, *, alpha: float) -> Verdict:
    """Return what so many misses in so many rounds say.

    Examples
    --------
    >>> judge(70, 500, alpha=0.1).alert.value
    'kept'
    >>> judge(80, 500, alpha=0.1).alert.value
    'too many misses'
    """
    if rounds < _FEWEST_ROUNDS:
        return Verdict(Alert.EARLY, None)
    too_many = at_least(misses, rounds, chance=alpha)
    too_few = at_least(rounds - misses, rounds, chance=1.0 - alpha)
    if too_many < LEVEL:
        return Verdict(Alert.TOO_MANY, too_many)
    if too_few < LEVEL:
        return Verdict(Alert.TOO_FEW, too_few)
    return Verdict(Alert.KEPT, min(too_many, too_few))


def at_least(count: int, rounds: int, *, chance: float) -> float:
    """Return the probability of at least so many successes, exactly, from the tail inwards."""
    if count <= rounds * chance:
        return 1.0 - at_least(rounds - count + 1, rounds, chance=1.0 - chance) if count > 0 else 1.0
    term = math.exp(
        math.lgamma(rounds + 1)
        - math.lgamma(count + 1)
        - math.lgamma(rounds - count + 1)
        + count * math.log(chance)
        + (rounds - count) * math.log1p(-chance)
    )
    total, odds = 0.0, chance / (1.0 - chance)
    for k in range(count, rounds + 1):
        total += term
        if term < total * 1e-17:
            break
        term *= (rounds - k) / (k + 1) * odds
    return min(1.0, total)


class Gauges:
    """The metrics of one process, and those of the streams in its database."""

    def __init__(self, every: Callable[[], list[Standing]]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Streams(every))
        self._latency = Histogram(
            "keyhole_request_seconds",
            "Time to answer a request.",
            ["method", "route", "status"],
            registry=self._registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0),
        )
        self._sizes = Histogram(
            "keyhole_set_size",
            "Size of the sets (labels) or intervals proposed by this process.",
            ["stream"],
            registry=self._registry,
            buckets=_SIZES,
        )
        self._feedback = Counter(
            "keyhole_feedback",
            "Answers counted by this process, by kind.",
            ["stream", "kind"],
            registry=self._registry,
        )

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Note a request."""
        self._latency.labels(method, route, str(status)).observe(seconds)

    def proposed(self, stream: str, size: float) -> None:
        """Note a set."""
        self._sizes.labels(stream).observe(size)

    def answered(self, stream: str, kind: str) -> None:
        """Note an answer."""
        self._feedback.labels(stream, kind).inc()

    def text(self) -> bytes:
        """Return everything in the text format."""
        return generate_latest(self._registry)


class _Streams:
    """Reads the streams at every scrape, so that a restart forgets nothing."""

    def __init__(self, every: Callable[[], list[Standing]]) -> None:
        self._every = every

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        standings = [here for here in self._every() if here.archived is None]
        for name, text, kind, value in _STREAM_METRICS:
            metric = kind(name, text, labels=["stream"])
            for here in standings:
                metric.add_metric([here.name], value(here))  # type: ignore[attr-defined]
            yield metric
        alerts = GaugeMetricFamily(
            "keyhole_alert", "1 for the alert state.", labels=["stream", "state"]
        )
        for here in standings:
            now = verdict(here).alert
            for alert in Alert:
                alerts.add_metric([here.name, alert.value], float(alert is now))
        yield alerts


_STREAM_METRICS: tuple[tuple[str, str, Callable[..., Metric], Callable[[Standing], float]], ...] = (
    (
        "keyhole_stream_predictions",
        "Rounds predicted.",
        CounterMetricFamily,
        lambda s: s.tally.predicted,
    ),
    ("keyhole_stream_answers", "Rounds answered.", CounterMetricFamily, lambda s: s.tally.answered),
    ("keyhole_stream_misses", "Rounds missed.", CounterMetricFamily, lambda s: s.tally.misses),
    ("keyhole_stream_expired", "Rounds expired.", CounterMetricFamily, lambda s: s.tally.expired),
    ("keyhole_stream_open", "Rounds that wait.", GaugeMetricFamily, lambda s: s.open),
    ("keyhole_alpha", "Target miss rate.", GaugeMetricFamily, lambda s: s.blueprint.learner.alpha),
    ("keyhole_miss_rate", "Miss rate overall.", GaugeMetricFamily, lambda s: s.tally.miss_rate),
    (
        "keyhole_recent_miss_rate",
        "Miss rate of the last window.",
        GaugeMetricFamily,
        lambda s: s.recent_misses / s.recent_rounds if s.recent_rounds else math.nan,
    ),
    ("keyhole_mean_size", "Mean set size.", GaugeMetricFamily, lambda s: s.tally.mean_size),
)
