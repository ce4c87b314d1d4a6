"""Metrics for Prometheus: what this process has done, and what the rows of the streams say.

The rows are read at every scrape, so that a restart forgets nothing; but their lines are written anew
only for rows that have changed: where streams are many, few change.
"""

import math
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from keyhole.errors import KeyholeError
from keyhole.service.http.health import Quarantine
from keyhole.service.http.views import Level, find_alert
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import registry
from keyhole.service.store.streams.proposals import Opened
from keyhole.service.store.streams.shadows import list_levels
from keyhole.service.store.streams.stream import Stream
from keyhole.service.wire.problems import find_problem
from keyhole.service.wire.responses import Alert

_SIZES = (0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)


class Metrics:
    """The metrics of one process, and those of the streams in its database."""

    def __init__(self, write_streams: Callable[[], str]) -> None:
        self.registry = CollectorRegistry()
        self._write_streams = write_streams
        self._latency = Histogram(
            "keyhole_request_seconds",
            "Time to answer a request.",
            ["method", "route", "status"],
            registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0),
        )
        self._sizes = Histogram(
            "keyhole_set_size",
            "Size of the sets (labels) or intervals predicted by this process.",
            ["stream"],
            registry=self.registry,
            buckets=_SIZES,
        )
        self._feedback = Counter(
            "keyhole_feedback",
            "Answers counted by this process, by kind.",
            ["stream", "kind"],
            registry=self.registry,
        )
        self._refused = Counter(
            "keyhole_refused_answers",
            "Answers and amendments refused by this process, by the code of the reason.",
            ["stream", "code"],
            registry=self.registry,
        )

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._latency.labels(method, route, str(status)).observe(seconds)

    def count_sets(self, stream: str, opened: Opened) -> None:
        sized = self._sizes.labels(stream)
        for shown, repeated in zip(*opened, strict=True):
            if not repeated:
                sized.observe(shown.size)

    def count_answers(self, counted: Mapping[tuple[str, str], int]) -> None:
        for (stream, kind), count in counted.items():
            self._feedback.labels(stream, kind).inc(count)

    def count_refused(self, stream: str, error: KeyholeError) -> None:
        """Count an answer that was refused; of a stream not used recently it has no name."""
        self._refused.labels(stream, find_problem(error).code).inc()

    def list_refused(self, stream: str) -> dict[str, int]:
        """Return how many answers to a stream this process has refused, by the code of the reason."""
        found = next(iter(self._refused.collect())).samples
        return {
            one.labels["code"]: int(one.value)
            for one in found
            if one.labels["stream"] == stream and one.name.endswith("_total")
        }

    def forget(self, stream: str) -> None:
        for metric in (self._sizes, self._feedback, self._refused):
            metric.remove_by_labels({"stream": stream})

    def write(self) -> bytes:
        return generate_latest(self.registry) + self._write_streams().encode()


class StreamMetrics:
    """The metrics of the streams in a database, as lines of text that are kept while they hold."""

    def __init__(
        self, database: Database, quarantine: Quarantine, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._database, self._quarantine, self._clock = database, quarantine, clock
        self._lock = threading.Lock()  # Two may scrape at once.
        self._seen: dict[int, int] = {}
        self._lines: dict[int, list[list[str]]] = {}  # of a stream, for each metric

    def write(self) -> str:
        with self._lock:
            found = registry.survey_changed(self._database, self._seen, now=self._clock())
            self._lines.update({stream.id: list_lines(stream) for stream in found.changed})
            kept = {id_: self._lines[id_] for id_ in found.digests}
            self._seen, self._lines = found.digests, kept
        self._quarantine.update(found.quarantined)
        parts = [
            write_family(*about, (line for lines in kept.values() for line in lines[place]))
            for place, about in enumerate(_FAMILIES)
        ]
        unusable = [write_sample(_QUARANTINED[0], 1.0, stream=name) for name in found.quarantined]
        return "".join([*parts, write_family(*_QUARANTINED, unusable)])


def write_host(database: Database, *, clock: Callable[[], float], backups: Path | None) -> str:
    """Return the metrics of where a service runs: its clock, the database's disk, the newest backup."""
    clock()  # which looks whether the machine's has jumped
    disk = None if database.file is None else shutil.disk_usage(database.file.parent)
    found = (
        getattr(clock, "jump", 0.0),
        None if disk is None else disk.free,
        None if disk is None else disk.total,
        None if backups is None else find_newest(backups),
    )
    return "".join(
        write_family(*about, [] if value is None else [write_sample(about[0], value)])
        for about, value in zip(_OF_HOST, found, strict=True)
    )


def find_newest(folder: Path) -> float:
    """Return when the newest backup in a folder was made, 0 if there is none that can be seen."""
    try:
        return max(
            (path.stat().st_mtime for path in folder.iterdir() if path.suffix in BACKUPS), default=0.0
        )
    except OSError:
        return 0.0


BACKUPS = (".db", ".dump")  # of keyhole backup, and of pg_dump
_OF_HOST = (
    ("keyhole_clock_jump_seconds", "How far the machine's clock jumped.", "gauge"),
    ("keyhole_disk_free_bytes", "Room on the disk of the database file.", "gauge"),
    ("keyhole_disk_bytes", "Size of the disk of the database file.", "gauge"),
    ("keyhole_backup_timestamp_seconds", "When the newest backup was made.", "gauge"),
)


def list_lines(stream: Stream) -> list[list[str]]:
    """Return the lines of a stream for each family; an archived one has none."""
    if stream.archived is not None:
        return [[] for _ in _FAMILIES]
    own = {"stream": stream.name}
    levels = [
        (level, {**own, "level": f"{level.setup.learner.alpha:g}"} if stream.alphas else own)
        for level in list_levels(stream)
    ]
    lines = [
        [write_sample(_name(name, kind), read(stream), **own)] if _applies(name, stream) else []
        for name, _, kind, read in _STREAM_METRICS
    ]
    lines += [
        [write_sample(_name(name, kind), read(level), **labels) for level, labels in levels]
        if _applies(name, stream)
        else []
        for name, _, kind, read in _LEVEL_METRICS
    ]
    alerts = [
        write_sample(_ALERT[0], float(alert is find_alert(level)), state=alert.value, **labels)
        for level, labels in levels
        for alert in Alert
    ]
    return [*lines, alerts]


def write_family(name: str, text: str, kind: str, lines: Iterable[str]) -> str:
    full = _name(name, kind)
    return f"# HELP {full} {text}\n# TYPE {full} {kind}\n{''.join(lines)}"


def write_sample(name: str, value: float | None, **labels: str) -> str:
    written = ",".join([f'{key}="{_escape(label)}"' for key, label in labels.items()])
    known = math.nan if value is None else float(value)
    shown = repr(known).replace("nan", "NaN").replace("inf", "Inf")
    return f"{name}{{{written}}} {shown}\n"


def _name(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" else name


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


_ALERT = ("keyhole_alert", "1 for the alert state.", "gauge")
_QUARANTINED = ("keyhole_quarantined", "1 for a stream that cannot be used.", "gauge")
_SIZE, _ACCEPTED, _WRONG = "keyhole_mean_size", "keyhole_accepted_share", "keyhole_wrong_share"


def _applies(metric: str, stream: Stream) -> bool:
    """Return whether such a stream has this metric: one that decides has shares and no sizes."""
    return not (metric == _SIZE if stream.setup.kind.decides else metric in (_ACCEPTED, _WRONG))


_STREAM_METRICS: tuple[tuple[str, str, str, Callable[[Stream], float | None]], ...] = (
    ("keyhole_stream_predictions", "Rounds predicted.", "counter", lambda s: s.tally.predicted),
    ("keyhole_stream_answers", "Rounds answered.", "counter", lambda s: s.tally.answered),
    ("keyhole_stream_expired", "Rounds expired.", "counter", lambda s: s.expired),
    ("keyhole_stream_open", "Rounds that wait.", "gauge", lambda s: s.open),
    (
        "keyhole_recent_miss_rate", "Miss rate of the last window.", "gauge",
        lambda s: s.recent_miss_rate,
    ),
    (
        _ACCEPTED, "Share of decisions that accepted.", "gauge",
        lambda s: s.tally.describe().accepted_share,
    ),
    (
        _WRONG, "Share of accepted and judged answers that were wrong.", "gauge",
        lambda s: s.tally.miss_rate,
    ),
)  # fmt: skip
# Of several levels each has a sample of these, with its alpha as the label "level".
_LEVEL_METRICS: tuple[tuple[str, str, str, Callable[[Level], float | None]], ...] = (
    # No counter: an amendment takes a miss back.
    ("keyhole_stream_misses", "Rounds missed.", "gauge", lambda one: one.progress.tally.misses),
    ("keyhole_alpha", "Target miss rate.", "gauge", lambda one: one.setup.learner.alpha),
    ("keyhole_miss_rate", "Miss rate overall.", "gauge", lambda one: one.progress.tally.miss_rate),
    (_SIZE, "Mean set size.", "gauge", lambda one: one.progress.tally.describe().mean_size),
)
_FAMILIES = (*(metric[:3] for metric in (*_STREAM_METRICS, *_LEVEL_METRICS)), _ALERT)
