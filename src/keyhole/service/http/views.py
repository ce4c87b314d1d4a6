"""What the store holds, as it is sent."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from keyhole.errors import TheoremError
from keyhole.predictor.monitor import bound_misses, bound_rate, find_monitor
from keyhole.predictor.notes import describe_standing
from keyhole.predictor.promises import bound_excess, judge_groups
from keyhole.scores import find_labels
from keyhole.service.http import responses
from keyhole.service.http.watch import find_alert, read_alarm
from keyhole.service.store.log.history import StreamCurve
from keyhole.service.store.streams.alarms import Alarmed
from keyhole.service.store.streams.changes import Change
from keyhole.service.store.streams.stream import Stream
from keyhole.service.times import show_time


def show_stream(
    here: Stream, *, notes: list[str] | None = None, listed: bool = False
) -> responses.StreamView:
    """Return what a stream is and where it stands; in a list without its distribution."""
    plan, tally = here.setup, here.tally
    rule, settings = plan.learner.rule, json.loads(json.dumps(plan.dump()))
    settings["parameters"].pop("thresholds", None)
    return responses.StreamView(
        name=here.name,
        learner=plan.learner.name,
        parameters=settings["parameters"],
        needs=rule.needs.value,
        guarantee=rule.about.guarantee,
        source=rule.about.source,
        alpha=plan.learner.alpha,
        feedback=plan.feedback.value,
        kind=plan.kind.name,
        labels=None if find_labels(plan.score) is None else list(find_labels(plan.score) or ()),
        score={key: value for key, value in settings["score"].items() if key != "labels"},
        features=list(plan.names.features) or plan.learner.features,
        groups=show_groups(here),
        open_limit=plan.open_limit,
        lifetime=here.lifetime,
        created=show_time(here.created),
        archived=None if here.archived is None else show_time(here.archived),
        description=here.description,
        predicted=tally.predicted,
        rounds=tally.answered,
        misses=tally.misses,
        open=here.open,
        expired=tally.expired,
        skipped=tally.skipped,
        unreachable=tally.unreachable,
        calibrated=tally.calibrated,
        miss_rate=tally.miss_rate,
        **tally.describe()._asdict(),
        recent=show_recent(here),
        promise=show_promise(here),
        distribution=None if listed else _show_distribution(here),
        notes=[*(notes or []), *_notes(here)],
    )


def _show_distribution(here: Stream) -> responses.DistributionView:
    thresholds, chances = here.setup.learner.distribution(here.progress.state)
    return responses.DistributionView(thresholds=thresholds.tolist(), probabilities=chances.tolist())


def show_groups(here: Stream) -> list[responses.GroupView]:
    """Return how each group has fared."""
    told = judge_groups(here.setup, here.progress)
    return [
        responses.GroupView(name=name, miss_rate=group.miss_rate, **group._asdict())
        for name, group in told.items()
    ]


def show_recent(here: Stream) -> responses.Recent:
    """Return the last window, as far as it had today's target."""
    rounds, misses = here.recent_rounds, here.recent_misses
    return responses.Recent(
        window=here.window,
        rounds=rounds,
        misses=misses,
        miss_rate=misses / rounds if rounds else None,
    )


def show_promise(here: Stream) -> responses.Promise:
    """Return what is known of whether the promise is kept."""
    return responses.Promise(
        state=find_alert(here),
        alarm=None if here.alarmed is None else show_alarm(here.alarmed),
        run_length=find_monitor(here.setup.learner.alpha).run_length,
        lifetime=list(bound_rate(here.tally.misses, here.tally.weight)),
    )


def show_change(found: Change) -> responses.ChangeView:
    """Return a change of the settings, or a calibration."""
    return responses.ChangeView(at=show_time(found.at), kind=found.kind, content=found.content)


def show_certain(here: Stream) -> responses.Certain:
    """Return between what the excess of misses lies, whatever the data."""
    excess = here.tally.misses - here.setup.learner.alpha * here.tally.weight
    try:
        least, most = bound_excess(here.setup, here.progress)
    except TheoremError:
        return responses.Certain(excess=excess, least=None, most=None)
    return responses.Certain(excess=excess, least=least, most=most)


def show_alarm(found: Alarmed) -> responses.AlarmView:
    """Return an alarm, with when it began and ended."""
    cleared = None
    if found.cleared is not None and found.cleared_at is not None:
        cleared = _show_moment(found.cleared, found.cleared_at)
    return responses.AlarmView(
        state=read_alarm(found.kind),
        since=_show_moment(found.since, found.since_at),
        raised=_show_moment(found.raised, found.raised_at),
        cleared=cleared,
    )


def _show_moment(answers: int, at: float) -> responses.Moment:
    return responses.Moment(answers=answers, at=show_time(at))


def _notes(here: Stream) -> list[str]:
    """Return what the predictor itself would say."""
    learner, said = here.setup.learner, describe_standing(here.setup, here.progress)
    if learner.horizon is not None and here.tally.answered > learner.horizon:
        return [f"past its horizon of {learner.horizon} rounds, for which it was tuned", *said]
    return said


def show_history(here: Stream, curve: StreamCurve) -> responses.HistoryView:
    """Return the curves."""
    alpha, rounds, decides = here.setup.learner.alpha, curve.answered, here.setup.kind.decides
    made, accepted = curve.predicted, curve.accepted
    return responses.HistoryView(
        alpha=alpha,
        rounds=rounds,
        at=[show_time(at) for at in curve.at],
        miss_rate=_divide(curve.misses, curve.weights),
        mean_size=_divide(curve.sizes, curve.bounded),
        local_miss_rate=_divide(_step(curve.misses), _step(curve.weights)),
        local_mean_size=_divide(_step(curve.sizes), _step(curve.bounded)),
        accepted_share=_divide(accepted, made) if decides else None,
        local_accepted_share=_divide(_step(accepted), _step(made)) if decides else None,
        band=[list(bound_misses(count, alpha=alpha)) for count in rounds],
        last=[int(missed) for missed in curve.last],
        on_target=min(len(curve.last), here.watch.rounds - here.retargeted),
        alarms=[show_alarm(found) for found in curve.alarms],
        changes=[show_change(found) for found in curve.changes],
        lately=responses.LatelyView(**asdict(curve.lately)),
        # Each round counts against the target of its time, and those are not kept.
        certain=None if curve.has_other_targets else show_certain(here),
    )


def _divide(sums: Sequence[float], rounds: Sequence[float]) -> list[Any]:
    return [one / count if count else None for one, count in zip(sums, rounds, strict=True)]


def _step(sums: Sequence[Any]) -> list[Any]:
    """Return by how much each is more than the one before."""
    return [after - before for before, after in pairwise([0, *sums])]
