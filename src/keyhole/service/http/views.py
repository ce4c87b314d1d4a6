"""What the store holds, as it is sent.

Nothing checks these values when they are sent: mypy holds them to the description of the wire.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from keyhole.errors import TheoremError
from keyhole.feedback import is_miss
from keyhole.predictor.monitor import Alarm, bound_misses, bound_rate, find_monitor
from keyhole.predictor.report import bound_excess, judge_groups, list_notes
from keyhole.scores import find_labels
from keyhole.service.store.log.history import LevelCurve, LogEntry, StreamCurve
from keyhole.service.store.sql.schema import AlarmRow
from keyhole.service.store.streams.shadows import Shadow, list_levels
from keyhole.service.store.streams.stream import Stream
from keyhole.service.wire import responses as wire
from keyhole.service.wire.responses import Alert, show_ends, show_levels, show_time

_ALERTS = {Alarm.NONE: Alert.KEPT, Alarm.TOO_MANY: Alert.TOO_MANY, Alarm.TOO_FEW: Alert.TOO_FEW}


class JsonResponse(Response):
    """A value as JSON, which has no word for NaN and the infinities."""

    media_type = "application/json"
    render = staticmethod(partial(to_json, inf_nan_mode="null"))


def show_round(found: LogEntry) -> wire.RoundView:
    row, answered, amended, final = found.row, found.answered, found.amended, found.final
    contents: Any = found.contents
    erased = found.is_erased
    return wire.RoundView(
        round=row.number,
        id=found.id,
        at=show_time(row.at),
        threshold=found.shown[0],
        size=found.shown[1],
        labels=contents.labels,
        interval=show_ends(contents.ends),
        decision=contents.verdict,
        features=found.known.features,
        groups=list(found.known.groups),
        answer=found.answer if amended is None or erased else json.loads(amended.answer),
        answered_at=None if answered is None else show_time(answered.at),
        amended_at=None if amended is None else show_time(amended.at),
        first_answer=None if amended is None else found.answer,
        missed=is_miss(found.misses[0]),
        weight=None if final is None else final.weight,
        score=None if final is None else final.score,
        key=row.key,
        metadata=found.metadata,
        erased=erased,
        levels=show_levels(found.alphas, found.regions, found.misses)
        if found.alphas and not erased
        else None,
    )


def show_stream(
    stream: Stream,
    *,
    notes: Sequence[str] = (),
    listed: bool = False,
    refused: Mapping[str, int] | None = None,
) -> wire.StreamView:
    """Return what a stream is, and its statistics; in a list without its distribution."""
    setup, tally = stream.setup, stream.tally
    rule, settings, labels = setup.learner.rule, setup.dump(), find_labels(setup.score)
    return wire.StreamView(
        name=stream.name,
        learner=setup.learner.name,
        parameters=_leave_out(settings["parameters"], "thresholds"),
        needs=rule.needs.value,
        guarantee=rule.about.guarantee,
        source=rule.about.source,
        alpha=setup.learner.alpha,
        feedback=setup.feedback.value,
        kind=setup.kind.name,
        labels=None if labels is None else list(labels),
        score=_leave_out(settings["score"], "labels"),
        features=list(setup.names.features) or setup.learner.features,
        groups=_show_groups(stream, retargeted=stream.retargeted),
        open_limit=setup.open_limit,
        least_chance=setup.least_chance,
        lifetime=stream.lifetime,
        created=show_time(stream.created),
        archived=None if stream.archived is None else show_time(stream.archived),
        description=stream.description,
        retention=stream.retention,
        predicted=tally.predicted,
        rounds=tally.answered,
        misses=tally.misses,
        open=stream.open,
        expired=stream.expired,
        skipped=tally.skipped,
        unreachable=tally.unreachable,
        calibrated=tally.calibrated,
        miss_rate=tally.miss_rate,
        **tally.describe()._asdict(),
        recent=wire.Recent(
            stream.window, stream.recent_rounds, stream.recent_misses, stream.recent_miss_rate
        ),
        promise=_show_promise(stream),
        distribution=None if listed else _show_distribution(stream),
        shadows=[_show_shadow(shadow) for shadow in stream.shadows if not shadow.is_level],
        levels=[_show_level(one) for one in list_levels(stream)] if stream.alphas else None,
        refused=dict(refused or {}),
        notes=[*notes, *_list_notes(stream)],
    )


def _show_shadow(shadow: Shadow) -> wire.ShadowView:
    learner, tally = shadow.setup.learner, shadow.progress.tally
    weight, accepted = tally.weight + shadow.unknown, tally.describe().accepted_share
    has_sizes = not shadow.setup.kind.decides
    return wire.ShadowView(
        name=shadow.name,
        learner=learner.name,
        parameters=_leave_out(learner.dump()["parameters"], "thresholds"),
        alpha=learner.alpha,
        added=show_time(shadow.at),
        rounds=shadow.rounds,
        misses=tally.misses,
        unknown=shadow.unknown,
        miss_rate=(tally.misses / weight, (tally.misses + shadow.unknown) / weight) if weight else None,
        mean_size=shadow.size / shadow.bounded if has_sizes and shadow.bounded else None,
        accepted_share=accepted,
        shown_miss_rate=shadow.shown_misses / shadow.shown_weight if shadow.shown_weight else None,
        shown_mean_size=shadow.shown_size / shadow.shown_bounded
        if has_sizes and shadow.shown_bounded
        else None,
    )


def _leave_out(values: dict[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in values.items() if key != name}


def _show_distribution(stream: Stream) -> wire.DistributionView:
    thresholds, chances = stream.setup.learner.distribution(stream.progress.state)
    return wire.DistributionView(thresholds.tolist(), chances.tolist())


Level = Stream | Shadow  # of several levels the stream itself is the outermost


def find_alert(level: Level) -> Alert:
    watch = level.watch
    return Alert.STARTING if watch.starting else _ALERTS[Alarm(watch.alarm)]


def _show_level(level: Level) -> wire.LevelView:
    learner, tally = level.setup.learner, level.progress.tally
    found = tally.describe()
    return wire.LevelView(
        alpha=learner.alpha,
        parameters=_leave_out(learner.dump()["parameters"], "thresholds"),
        misses=tally.misses,
        miss_rate=tally.miss_rate,
        mean_size=found.mean_size,
        median_size=found.median_size,
        unbounded_share=found.unbounded_share,
        groups=_show_groups(level, retargeted=None),
        promise=_show_promise(level),
    )


def _show_groups(level: Level, *, retargeted: int | None) -> list[wire.GroupView]:
    groups = judge_groups(level.setup, level.progress)
    return [
        wire.GroupView(
            name,
            group.rounds,
            group.misses,
            group.miss_rate,
            group.excess,
            # Of several targets or learners each has a theorem of its own.
            *(group.bound if group.bound and retargeted is None else (None, None)),
        )
        for name, group in groups.items()
    ]


_WORST = (Alert.TOO_MANY, Alert.TOO_FEW, Alert.STARTING, Alert.KEPT)


def find_worst(stream: Stream) -> tuple[Alert, AlarmRow | None]:
    """Return the alert of the level that is off the most, and its last alarm."""
    worst = min(list_levels(stream), key=lambda level: _WORST.index(find_alert(level)))
    return find_alert(worst), worst.alarmed


def _show_promise(level: Level) -> wire.Promise:
    tally, watch = level.progress.tally, level.watch
    scale = watch.scale  # An answer of the least chance counts as one round, the others as less.
    return wire.Promise(
        state=find_alert(level),
        tested=watch.tested or None,
        alarm=None if level.alarmed is None else show_alarm(level.alarmed),
        run_length=find_monitor(level.setup.learner.alpha).run_length,
        overall=bound_rate(scale * tally.misses, scale * tally.weight),
    )


def show_alarm(found: AlarmRow) -> wire.AlarmView:
    cleared = None
    if found.cleared is not None and found.cleared_at is not None:
        cleared = wire.Moment(found.cleared, show_time(found.cleared_at))
    return wire.AlarmView(
        state=_ALERTS[Alarm(found.kind)],
        level=found.level,
        since=wire.Moment(found.since, show_time(found.since_at)),
        raised=wire.Moment(found.raised, show_time(found.raised_at)),
        cleared=cleared,
    )


def _list_notes(stream: Stream) -> list[str]:
    learner, notes = stream.setup.learner, list_notes(stream.setup, stream.progress)
    if learner.horizon is not None and stream.tally.answered > learner.horizon:
        return [f"past its horizon of {learner.horizon} rounds, for which it was tuned", *notes]
    return notes


def show_history(stream: Stream, curve: StreamCurve) -> wire.HistoryView:
    alpha, rounds = stream.setup.learner.alpha, curve.answered
    opened, accepted, decides = curve.predicted, curve.accepted, stream.setup.kind.decides
    own = curve.levels[0]
    return wire.HistoryView(
        alpha=alpha,
        rounds=rounds,
        at=[show_time(at) for at in curve.at],
        **_show_curve(stream, own),
        accepted_share=_divide(accepted, opened) if decides else None,
        local_accepted_share=_divide(_step(accepted), _step(opened)) if decides else None,
        on_target=min(len(own.last), stream.watch.rounds - (stream.retargeted or 0)),
        alarms=[show_alarm(found) for found in curve.alarms],
        changes=[
            wire.ChangeView(show_time(change.at), change.kind, change.content)
            for change in curve.changes
        ],
        recent=curve.recent,
        # Each round counts against the target of its time, and those are not kept.
        proven=None if stream.retargeted is not None else _show_proven(stream),
        levels=[
            wire.LevelHistoryView(
                alpha=level.setup.learner.alpha, **_show_curve(level, one), proven=_show_proven(level)
            )
            for level, one in zip(list_levels(stream), curve.levels, strict=True)
        ]
        if stream.alphas
        else None,
    )


def _show_curve(level: Level, curve: LevelCurve) -> dict[str, Any]:
    alpha, scale = level.setup.learner.alpha, level.watch.scale
    return {
        "miss_rate": _divide(curve.misses, curve.weights),
        "mean_size": _divide(curve.sizes, curve.bounded),
        "local_miss_rate": _divide(_step(curve.misses), _step(curve.weights)),
        "local_mean_size": _divide(_step(curve.sizes), _step(curve.bounded)),
        "band": [bound_misses(scale * weight, alpha=alpha) for weight in curve.weights],
        "last": [int(missed) for missed in curve.last],
    }


def _show_proven(level: Level) -> wire.ProvenBounds:
    tally = level.progress.tally
    excess = tally.misses - level.setup.learner.alpha * tally.weight
    try:
        least, most = bound_excess(level.setup, level.progress)
    except TheoremError:
        return wire.ProvenBounds(excess, None, None)
    return wire.ProvenBounds(excess, least, most)


def _divide(sums: Sequence[float], rounds: Sequence[float]) -> list[float | None]:
    return [one / count if count else None for one, count in zip(sums, rounds, strict=True)]


def _step(sums: Sequence[float]) -> list[float]:
    """Return by how much each is more than the one before."""
    return [after - before for before, after in pairwise([0, *sums])]
