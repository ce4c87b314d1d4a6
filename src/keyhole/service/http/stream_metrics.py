"""What the rows of the streams say, for Prometheus, at every scrape: so that a restart forgets nothing.

What a row says is worked out again only if it has changed: where streams are many, few change.
"""

import math
import threading
from collections.abc import Callable, Iterable

from keyhole.service.http.quarantine import Quarantine
from keyhole.service.http.watch import Alert, find_alert
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import registry
from keyhole.service.store.streams.stream import Stream


class StreamMetrics:
    """The metrics of the streams in a database, as lines of text that are kept while they hold."""

    def __init__(self, database: Database, quarantine: Quarantine) -> None:
        self._database, self._quarantine = database, quarantine
        self._turn = threading.Lock()  # Two may scrape at once.
        self._seen: dict[int, int] = {}
        self._lines: dict[int, list[list[str]]] = {}  # of a stream, for each metric

    def write(self) -> str:
        """Return the metrics of every stream that takes rounds."""
        with self._turn:
            found = registry.survey_changed(self._database, self._seen)
            self._lines.update({here.id: list_lines(here) for here in found.changed})
            kept = {id_: self._lines[id_] for id_ in found.digests}
            self._seen, self._lines = found.digests, kept
        self._quarantine.note(found.quarantined)
        parts = [
            write_family(name, text, kind, (line for lines in kept.values() for line in lines[place]))
            for place, (name, text, kind, _) in enumerate(_STREAM_METRICS)
        ]
        apart = [write_sample(_APART[0], 1.0, stream=name) for name in found.quarantined]
        alerts = (line for lines in kept.values() for line in lines[-1])
        return "".join([*parts, write_family(*_ALERT, alerts), write_family(*_APART, apart)])


def list_lines(here: Stream) -> list[list[str]]:
    """Return the lines of a stream for each metric, its alert last; an archived one has none."""
    if here.archived is not None:
        return [[] for _ in range(len(_STREAM_METRICS) + 1)]
    lines = [
        [write_sample(_name(name, kind), value(here), stream=here.name)] if _is_told(name, here) else []
        for name, _, kind, value in _STREAM_METRICS
    ]
    now = find_alert(here)
    states = [(alert.value, float(alert is now)) for alert in Alert]
    return [*lines, [write_sample(_ALERT[0], on, state=told, stream=here.name) for told, on in states]]


def write_family(name: str, text: str, kind: str, lines: Iterable[str]) -> str:
    """Return a metric with its samples, in the text format."""
    told = _name(name, kind)
    return f"# HELP {told} {text}\n# TYPE {told} {kind}\n{''.join(lines)}"


def write_sample(name: str, value: float, **labels: str) -> str:
    """Return the line of one sample."""
    told = ",".join([f'{key}="{_escape(label)}"' for key, label in labels.items()])
    shown = repr(float(value)).replace("nan", "NaN").replace("inf", "Inf")
    return f"{name}{{{told}}} {shown}\n"


def _name(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" else name


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


_ALERT = ("keyhole_alert", "1 for the alert state.", "gauge")
_APART = ("keyhole_quarantined", "1 for a stream that cannot be used.", "gauge")
_SIZE, _ACCEPTED, _WRONG = "keyhole_mean_size", "keyhole_accepted_share", "keyhole_wrong_share"


def _is_told(metric: str, here: Stream) -> bool:
    """Return whether a metric speaks of such a stream: one that decides has shares and no sizes."""
    return not (metric == _SIZE if here.setup.kind.decides else metric in (_ACCEPTED, _WRONG))


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


_STREAM_METRICS: tuple[tuple[str, str, str, Callable[[Stream], float]], ...] = (
    (
        "keyhole_stream_predictions",
        "Rounds predicted.",
        "counter",
        lambda s: s.tally.predicted,
    ),
    ("keyhole_stream_answers", "Rounds answered.", "counter", lambda s: s.tally.answered),
    ("keyhole_stream_misses", "Rounds missed.", "counter", lambda s: s.tally.misses),
    ("keyhole_stream_expired", "Rounds expired.", "counter", lambda s: s.tally.expired),
    ("keyhole_stream_open", "Rounds that wait.", "gauge", lambda s: s.open),
    ("keyhole_alpha", "Target miss rate.", "gauge", lambda s: s.setup.learner.alpha),
    ("keyhole_miss_rate", "Miss rate overall.", "gauge", lambda s: s.tally.miss_rate),
    (
        "keyhole_recent_miss_rate",
        "Miss rate of the last window.",
        "gauge",
        lambda s: s.recent_misses / s.recent_rounds if s.recent_rounds else math.nan,
    ),
    (_SIZE, "Mean set size.", "gauge", lambda s: _or_nan(s.tally.describe().mean_size)),
    (
        _ACCEPTED,
        "Share of a gate's decisions that accepted.",
        "gauge",
        lambda s: _or_nan(s.tally.describe().accepted_share),
    ),
    (
        _WRONG,
        "Share of a gate's accepted and judged answers that were wrong.",
        "gauge",
        lambda s: s.tally.miss_rate,
    ),
)
