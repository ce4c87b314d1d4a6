"""Every stream in a line: what a list of thousands shows, a page at a time."""

import math
import threading
import time
from collections.abc import Callable
from itertools import pairwise

from keyhole.service.http.views import find_worst
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import registry
from keyhole.service.store.streams.stream import Stream
from keyhole.service.wire.responses import Alert, OverviewView, Recent, Selection, StreamLine, show_time

_SECONDS_TO_KEEP = 1.0
_PARTS, _LEAST = 20, 10  # of a trend, and rounds in each
_ALERTS = (Alert.TOO_MANY, Alert.TOO_FEW)


class Overview:
    """The lines of all streams, read once a second at most; written anew for rows that have changed."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._lock, self._at = database, threading.Lock(), -math.inf
        self._clock = clock
        self._digests: dict[int, int] = {}
        self._lines: dict[int, StreamLine] = {}
        self._quarantined: dict[str, str] = {}

    def find(
        self, words: str, only: Selection, *, offset: int, limit: int, prefix: str = ""
    ) -> OverviewView:
        """Return those with these words in name or learner, and names that begin so."""
        with self._lock:
            self._read()
            lines = [line for line in self._lines.values() if line.name.startswith(prefix)]
            apart = self._quarantined.items()
            quarantined = {name: why for name, why in apart if name.startswith(prefix)}
        live = [line for line in lines if line.archived is None]
        selected = {
            Selection.ALL: live,
            Selection.ALERTS: [line for line in live if line.state in _ALERTS],
            Selection.STARTING: [line for line in live if line.state is Alert.STARTING],
            Selection.ARCHIVED: [line for line in lines if line.archived is not None],
        }
        sought = words.casefold()
        found = [line for line in selected[only] if sought in f"{line.name} {line.learner}".casefold()]
        found.sort(key=lambda line: (line.state not in _ALERTS, line.name.casefold(), line.name))
        counts = {one: len(those) for one, those in selected.items()}
        return OverviewView(found[offset : offset + limit], len(found), counts, quarantined)

    def _read(self) -> None:
        if time.monotonic() - self._at < _SECONDS_TO_KEEP:
            return
        seen = registry.survey_changed(self._database, self._digests, now=self._clock())
        self._lines.update({stream.id: _show(stream) for stream in seen.changed})
        self._lines = {id: self._lines[id] for id in seen.digests}
        self._digests, self._quarantined = seen.digests, seen.quarantined
        self._at = time.monotonic()


def _show(stream: Stream) -> StreamLine:
    state, alarm = find_worst(stream)
    since = alarm.since_at if alarm is not None and state in _ALERTS else None
    tally, rounds, misses = stream.tally, stream.recent_rounds, stream.recent_misses
    return StreamLine(
        name=stream.name,
        kind=stream.setup.kind.name,
        learner=stream.setup.learner.name,
        alpha=stream.setup.learner.alpha,
        alphas=list(stream.alphas) or None,
        state=state,
        since=None if since is None else show_time(since),
        retargeted=stream.retargeted is not None,
        archived=None if stream.archived is None else show_time(stream.archived),
        recent=Recent(stream.window, rounds, misses, _round(misses / rounds) if rounds else None),
        trend=_find_trend(stream),
        rounds=tally.answered,
        miss_rate=_round(tally.miss_rate),
        open=stream.open,
    )


def _find_trend(stream: Stream) -> list[float]:
    rounds = stream.recent_rounds
    bits = f"{stream.recent:b}".zfill(rounds)[-rounds:] if rounds else ""
    parts = min(_PARTS, rounds // _LEAST)
    ends = [rounds * k // parts for k in range(parts + 1)] if parts else []
    return [round(bits.count("1", start, end) / (end - start), 3) for start, end in pairwise(ends)]


def _round(share: float | None) -> float | None:
    return None if share is None or math.isnan(share) else round(share, 4)
