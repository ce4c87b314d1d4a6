"""Is the promise kept? What the monitor of each stream says, and numbers for Prometheus."""

from collections import Counter as Counts
from collections.abc import Callable, Sequence
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from keyhole.errors import KeyholeError
from keyhole.predictor.monitor import Alarm
from keyhole.service.store.streams.answers import Counted, Reply
from keyhole.service.store.streams.proposals import Opened
from keyhole.service.store.streams.stream import Stream

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

    def __init__(self, write_streams: Callable[[], str]) -> None:
        self._registry = CollectorRegistry()
        self._write_streams = write_streams
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

    def count_sets(self, stream: str, made: Sequence[Opened]) -> None:
        """Note sets."""
        sized = self._sizes.labels(stream)
        for one in made:
            if not one.repeated:
                sized.observe(one.region.size)

    def count_answers(
        self, replies: Sequence[Reply], results: Sequence[Counted | KeyholeError]
    ) -> None:
        """Note the answers that were counted."""
        kinds = [
            (result.stream, reply.answer if isinstance(reply.answer, str) else next(iter(reply.answer)))
            for reply, result in zip(replies, results, strict=True)
            if isinstance(result, Counted) and not result.repeated
        ]
        for (stream, kind), count in Counts(kinds).items():
            self._feedback.labels(stream, kind).inc(count)

    def forget(self, stream: str) -> None:
        """Drop what is known of a stream that is gone."""
        for metric in (self._sizes, self._feedback):
            metric.remove_by_labels({"stream": stream})

    def text(self) -> bytes:
        """Return everything in the text format."""
        return generate_latest(self._registry) + self._write_streams().encode()
