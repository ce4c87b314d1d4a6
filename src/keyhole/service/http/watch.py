"""Is the promise kept? What the monitor of each stream says, and numbers for Prometheus."""

import math
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from keyhole.predictor.monitor import Alarm
from keyhole.service.http.quarantine import Quarantine
from keyhole.service.store.opening import is_gate
from keyhole.service.store.stream import Stream

_FEWEST_ROUNDS = 50
_SIZES = (0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)


class Alert(StrEnum):
    """What the rounds of late say of the promise."""

    EARLY = "too early to say"
    KEPT = "kept"
    TOO_MANY = "too many misses"
    TOO_FEW = "fewer misses than alpha"


_ALERTS = {Alarm.NONE: Alert.KEPT, Alarm.TOO_MANY: Alert.TOO_MANY, Alarm.TOO_FEW: Alert.TOO_FEW}


def read_alarm(kind: int) -> Alert:
    """Return what an alarm says, in words."""
    return _ALERTS[Alarm(kind)]


def find_alert(here: Stream) -> Alert:
    """Return what a stream's monitor says now."""
    early = not here.watch.alarm and here.watch.rounds < _FEWEST_ROUNDS
    return Alert.EARLY if early else read_alarm(here.watch.alarm)


class Gauges:
    """The metrics of one process, and those of the streams in its database."""

    def __init__(self, every: Callable[[], list[Stream]], quarantine: Quarantine) -> None:
        self._registry = CollectorRegistry()
        self._streams = _Streams(every, quarantine)
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

    def forget(self, stream: str) -> None:
        """Drop what is known of a stream that is gone."""
        for metric in (self._sizes, self._feedback):
            metric.remove_by_labels({"stream": stream})

    def text(self) -> bytes:
        """Return everything in the text format."""
        return generate_latest(self._registry) + render(self._streams.collect())


def render(families: Iterable[Metric]) -> bytes:
    """Return metrics in the text format, faster than the library does: streams may be many."""
    lines = []
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        lines += [f"# HELP {name} {family.documentation}", f"# TYPE {name} {family.type}"]
        for sample in family.samples:
            labels = ",".join(f'{key}="{_escape(sample.labels[key])}"' for key in sorted(sample.labels))
            value = repr(float(sample.value)).replace("nan", "NaN").replace("inf", "Inf")
            lines.append(f"{name}{{{labels}}} {value}")
    return "".join(f"{line}\n" for line in lines).encode()


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class _Streams:
    """Reads the streams at every scrape, so that a restart forgets nothing."""

    def __init__(self, every: Callable[[], list[Stream]], quarantine: Quarantine) -> None:
        self._every, self._quarantine = every, quarantine

    def collect(self) -> Iterator[Metric]:
        standings = [here for here in self._every() if here.archived is None]
        for name, text, kind, value in _STREAM_METRICS:
            metric = kind(name, text, labels=["stream"])
            for here in (here for here in standings if _is_told(name, here)):
                metric.add_metric([here.name], value(here))  # type: ignore[attr-defined]
            yield metric
        alerts = GaugeMetricFamily(
            "keyhole_alert", "1 for the alert state.", labels=["stream", "state"]
        )
        for here in standings:
            now = find_alert(here)
            for alert in Alert:
                alerts.add_metric([here.name, alert.value], float(alert is now))
        yield alerts
        apart = GaugeMetricFamily(
            "keyhole_quarantined", "1 for a stream that cannot be used.", labels=["stream"]
        )
        for name in self._quarantine.reasons:
            apart.add_metric([name], 1.0)
        yield apart


_SIZE, _ACCEPTED, _WRONG = "keyhole_mean_size", "keyhole_accepted_share", "keyhole_wrong_share"


def _is_told(metric: str, here: Stream) -> bool:
    """Return whether a metric speaks of such a stream: a gate has shares and no sizes."""
    return not (metric == _SIZE if is_gate(here.setup) else metric in (_ACCEPTED, _WRONG))


_STREAM_METRICS: tuple[tuple[str, str, Callable[..., Metric], Callable[[Stream], float]], ...] = (
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
    ("keyhole_alpha", "Target miss rate.", GaugeMetricFamily, lambda s: s.setup.learner.alpha),
    ("keyhole_miss_rate", "Miss rate overall.", GaugeMetricFamily, lambda s: s.tally.miss_rate),
    (
        "keyhole_recent_miss_rate",
        "Miss rate of the last window.",
        GaugeMetricFamily,
        lambda s: s.recent_misses / s.recent_rounds if s.recent_rounds else math.nan,
    ),
    (_SIZE, "Mean set size.", GaugeMetricFamily, lambda s: s.tally.mean_size),
    (
        _ACCEPTED,
        "Share of a gate's decisions that accepted.",
        GaugeMetricFamily,
        lambda s: s.tally.size / s.tally.predicted if s.tally.predicted else math.nan,
    ),
    (
        _WRONG,
        "Share of a gate's accepted and judged answers that were wrong.",
        GaugeMetricFamily,
        lambda s: s.tally.miss_rate,
    ),
)
