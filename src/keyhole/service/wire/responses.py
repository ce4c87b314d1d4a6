"""What the service sends, and clients return: dataclasses whose fields say what they mean.

The text beside a type is the field's description in the OpenAPI document. JSON has no word for NaN and
the infinities: where a number may be one, its type is ``float | None``, and it is sent as null.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Literal

from keyhole.feedback import is_miss
from keyhole.scores import Decision, Region
from keyhole.scores.labels import check_unknown
from keyhole.scores.score import Kind

Label = str | int | float
Json = Any  # a JSON value, whatever it is
Pair = tuple[float | None, float | None]


@lru_cache(maxsize=1024)
def show_time(seconds: float) -> str:
    """Return a time as it leaves the service, in responses, files and logs: in ISO form, in UTC."""
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="milliseconds")


class Alert(StrEnum):
    """What the recent rounds say of the promise."""

    STARTING = "starting"
    KEPT = "kept"
    TOO_MANY = "too many misses"
    TOO_FEW = "fewer misses than alpha"


def _holds(shown: "Prediction | LevelPrediction", label: Any) -> bool:
    if shown.labels is not None:
        if label in shown.labels:
            return True
        check_unknown(label, shown.labels)
        return False
    if shown.interval is None:
        return False
    lower, upper = shown.interval
    return (lower is None or lower <= label) and (upper is None or label <= upper)


@dataclass(frozen=True, slots=True)
class LevelPrediction:
    """What a round shows on one of several levels: it holds what those of a larger alpha show."""

    alpha: float
    threshold: float | None
    labels: Annotated[tuple[Label, ...] | None, "The set; null where the stream has intervals."]
    interval: Pair | None
    size: float | None
    missed: Annotated[bool | None, "Whether the truth was outside; null until that is known."] = None

    __contains__ = _holds


@dataclass(frozen=True, slots=True)
class Prediction:
    """A set or an interval to show; it stays open until it is answered or expires.

    Of several levels it is the outermost.
    """

    id: Annotated[str, "Give it back with the answer."]
    round: int
    threshold: float | None
    labels: Annotated[tuple[Label, ...] | None, "The set; null where the stream has intervals."]
    interval: Pair | None
    size: float | None
    expires: Annotated[str, "Until when it can be answered."]
    levels: list[LevelPrediction] | None = None

    __contains__ = _holds


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to use an answer as it is, or to ask a person; it stays open until it is judged.

    It is true if the answer was accepted.
    """

    id: Annotated[str, "Give it back with the judgement."]
    round: int
    accepted: Annotated[bool, "Whether the answer may be used as it is; otherwise ask a person."]
    threshold: Annotated[float, "The score from which on an answer was accepted."]
    score: Annotated[float, "The answer's score."]
    candidate: Annotated[Label | None, "The answer, where several were offered."]
    expires: Annotated[str, "Until when it can be judged."]

    def __bool__(self) -> bool:
        return self.accepted


def show_prediction(
    id: str, regions: Sequence[Region], *, expires: float, alphas: Sequence[float] = ()
) -> Prediction:
    """Return what is sent of a round: its regions are those of each level, the smallest alpha first."""
    shown, until = regions[0], show_time(expires)
    labels, ends, _ = shown.contents
    return Prediction(
        id,
        shown.id,
        shown.threshold,
        labels,  # type: ignore[arg-type]
        None if ends is None else show_ends(ends),
        shown.size,
        until,
        show_levels(alphas, regions) if alphas else None,
    )


def show_levels(
    alphas: Sequence[float], regions: Sequence[Region], misses: Sequence[float | None] | None = None
) -> list[LevelPrediction]:
    shown = []
    for alpha, region, miss in zip(alphas, regions, misses or [None] * len(alphas), strict=True):
        contents: Any = region.contents
        what = (region.threshold, contents.labels, show_ends(contents.ends), region.size)
        shown.append(LevelPrediction(alpha, *what, missed=is_miss(miss)))
    return shown


def show_ends(ends: tuple[float, float] | None) -> Pair | None:
    """Return both ends of an interval; of an empty one None."""
    return None if ends is None or ends[0] > ends[1] else ends


def show_decision(id: str, decision: Decision, *, expires: float) -> Verdict:
    return Verdict(
        id=id,
        round=decision.id,
        accepted=decision.accepted,
        threshold=decision.threshold,
        score=decision.score,
        candidate=decision.candidate,  # type: ignore[arg-type]
        expires=show_time(expires),
    )


@dataclass(frozen=True, slots=True)
class Predictions:
    """The predictions of a batch, in order."""

    predictions: list[Prediction]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The decisions of a batch, in order."""

    decisions: list[Verdict]


@dataclass(frozen=True, slots=True)
class Receipt:
    """An answer that is durable; ``repeated`` if the service had it already.

    ``missed`` is None where the round was skipped.
    """

    id: str
    stream: Annotated[str, "The name of its stream."]
    missed: Annotated[bool | None, "Null where the round was skipped."]
    repeated: Annotated[bool, "Whether the service had it already."] = False


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, in a word for programs and a sentence for people."""

    code: Annotated[str, "What is wrong, in a word for programs."]
    message: Annotated[str, "What is wrong and how to fix it, in a sentence for people."]
    field: Annotated[str | None, "The field at fault, if it is one."]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request was refused."""

    error: Fault


@dataclass(frozen=True, slots=True)
class Receipts:
    """A receipt for each answer of a batch, or why it was not counted."""

    results: Annotated[
        list[Receipt | Problem], "For each answer, in order, its receipt or why it was not counted."
    ]


@dataclass(frozen=True, slots=True)
class Recent:
    """The most recent answered rounds, without those that had another alpha."""

    window: int
    rounds: int
    misses: int
    miss_rate: float | None


@dataclass(frozen=True, slots=True)
class Moment:
    """An answer, and when it came."""

    answers: Annotated[int, "How many had come with it, from 1."]
    at: str


@dataclass(frozen=True, slots=True)
class AlarmView:
    """A time in which rounds missed too often, or less often than they might."""

    state: Alert
    level: Annotated[int, "Which of several levels it is of, the smallest alpha first, from 0."]
    since: Annotated[Moment, "When, by the best guess, the miss rate changed."]
    raised: Annotated[Moment, "When that was certain enough."]
    cleared: Annotated[Moment | None, "When it was over; null while it is on."]


@dataclass(frozen=True, slots=True)
class Promise:
    """Whether rounds miss as often as alpha says, recently and overall."""

    state: Annotated[
        Alert,
        "By a test that stays valid if it is read after every round; starting until the promise can be "
        "judged.",
    ]
    tested: Annotated[int | None, "From which answer on, from 1; null while it is starting."]
    alarm: Annotated[AlarmView | None, "The last one, whether on or over."]
    run_length: Annotated[
        float, "Rounds to a false alarm on average, at least, at a miss rate of alpha."
    ]
    overall: Annotated[
        tuple[float, float],
        "Miss rates that all rounds of the stream support: if every round misses with the same "
        "probability, that is never outside, at any round, except with probability 1 %. An answer "
        "with a chance counts for the least chance / its own.",
    ]


@dataclass(frozen=True, slots=True)
class DistributionView:
    """The probability of each threshold to be chosen next."""

    thresholds: Annotated[list[float | None], "Those that may be chosen next."]
    probabilities: Annotated[list[float | None], "The probability that each threshold is chosen next."]


@dataclass(frozen=True, slots=True)
class ProvenBounds:
    """Between what the excess of misses, as answers told it, must lie, whatever the data.

    Of decisions, if every judgement came before the next decision.
    """

    excess: Annotated[float, "misses - alpha * rounds, as it is now."]
    least: Annotated[float | None, "It cannot be less; null without a theorem."]
    most: Annotated[float | None, "It cannot be more; null without a theorem."]


@dataclass(frozen=True, slots=True)
class GroupView:
    """The statistics of a group of rounds."""

    name: Annotated[str | int, "Its number, from 0, where it has no name."]
    rounds: Annotated[
        float,
        "Answered rounds of the group; of decisions, those that accepted and were judged, audits "
        "by their probability.",
    ]
    misses: float
    miss_rate: float | None
    excess: Annotated[float, "misses - alpha * rounds"]
    least: Annotated[float | None, "The excess cannot be less; null without a theorem."]
    most: Annotated[float | None, "The excess cannot be more; null without a theorem."]


@dataclass(frozen=True, slots=True)
class ShadowView:
    """What another learner would have done in the rounds that were answered beside it."""

    name: str
    learner: str
    parameters: Annotated[dict[str, Json], "The learner's own, by name."]
    alpha: float
    added: Annotated[str, "Since when it is there."]
    rounds: Annotated[int, "Rounds answered since, of those that were opened since."]
    misses: Annotated[
        float, "Its misses, where the answers show them; of decisions, its wrong answers."
    ]
    unknown: Annotated[
        float, "Rounds whose answer does not show whether it would have missed, or been wrong."
    ]
    miss_rate: Annotated[
        tuple[float, float] | None,
        "Between which its miss rate lies: if no unknown one missed, if all.",
    ]
    mean_size: Annotated[float | None, "Of its sets or intervals that were bounded, known or not."]
    accepted_share: Annotated[float | None, "Of decisions, those that it would have accepted."]
    shown_miss_rate: Annotated[float | None, "Of what the stream showed in the same rounds."]
    shown_mean_size: Annotated[float | None, "Of what the stream showed in the same rounds."]


@dataclass(frozen=True, slots=True)
class LevelView:
    """The statistics of one of several levels: those of a stream of this alpha alone."""

    alpha: float
    parameters: Annotated[dict[str, Json], "The learner's own, by name."]
    misses: Annotated[
        float,
        "Of the sets or intervals that this level chose itself. Where an inner one chose more, that "
        "was shown, which can only prevent misses.",
    ]
    miss_rate: float | None
    mean_size: Annotated[float | None, "Of those that it chose itself and that were bounded."]
    median_size: Annotated[float | None, "A running median of the same."]
    unbounded_share: Annotated[float | None, "Of its own intervals, those that were unbounded."]
    groups: list[GroupView]
    promise: Promise


@dataclass(frozen=True, slots=True)
class StreamView:
    """What a stream is, and its statistics; of several levels those of the smallest alpha."""

    name: str
    learner: str
    parameters: Annotated[dict[str, Json], "The learner's own, by name."]
    needs: Annotated[str, "What an answer must reveal for the learner to learn."]
    guarantee: Annotated[str, "What is proven about the learner, in a sentence."]
    source: Annotated[str, "Where the learner comes from."]
    alpha: float
    feedback: Annotated[
        str, "What answers can reveal: bandit, semi-bandit or full; of decisions, which are judged."
    ]
    kind: Kind
    labels: list[Label] | None
    score: Annotated[dict[str, Json], "How model outputs are read."]
    features: Annotated[list[str] | int, "Their names, or their number where they have none."]
    groups: list[GroupView]
    open_limit: int
    least_chance: float
    lifetime: float
    created: Annotated[str, "When it was made."]
    archived: str | None
    description: str | None
    retention: Annotated[
        float | None, "Seconds after which the content of rounds is erased; null if it is kept."
    ]
    predicted: Annotated[int, "Rounds predicted."]
    rounds: int
    misses: float
    open: int
    expired: Annotated[int, "Rounds that expired before an answer came."]
    skipped: Annotated[int, "Rounds closed because nobody will answer them."]
    unreachable: Annotated[int, "True values that no threshold would have covered."]
    calibrated: Annotated[int, "Rounds of history learnt before the first round."]
    miss_rate: float | None
    mean_size: Annotated[float | None, "Of the answered sets or intervals that were bounded."]
    median_size: Annotated[float | None, "A running median of the same."]
    unbounded_share: Annotated[float | None, "Of the answered intervals, those that were unbounded."]
    accepted_share: Annotated[float | None, "Of decisions, those that accepted."]
    wrong_share: Annotated[
        float | None, "Of the accepted and judged, those that were wrong; audits by their probability."
    ]
    recent: Recent
    promise: Promise
    distribution: Annotated[
        DistributionView | None, "Null in lists, where it would be the largest part."
    ]
    shadows: Annotated[list[ShadowView], "Other learners that get the same answers."]
    levels: list[LevelView] | None
    refused: Annotated[
        dict[str, int],
        "Answers and amendments that this process has refused since its start, by the code of the "
        "reason; empty in lists.",
    ]
    notes: Annotated[list[str], "What a user should know about its state; usually nothing."]


@dataclass(frozen=True, slots=True)
class StreamsView:
    """Streams, the oldest first; and those that cannot be used, by name, with the reason."""

    streams: Annotated[list[StreamView], "Each stream with its statistics."]
    quarantined: dict[str, str]
    next: Annotated[str | None, "Ask for what comes after this; null at the end."]


@dataclass(frozen=True, slots=True)
class StreamLine:
    """A stream in a line."""

    name: str
    kind: Kind
    learner: str
    alpha: Annotated[float, "The target; of several levels the smallest."]
    alphas: Annotated[list[float] | None, "Those of several levels; null where there is one."]
    state: Annotated[
        Alert, "What the recent rounds say about the promise; of several levels the worst."
    ]
    since: Annotated[str | None, "Since when it is off target; null while it is not."]
    retargeted: Annotated[bool, "Whether alpha was ever changed: recent are the rounds since."]
    archived: str | None
    recent: Recent
    trend: Annotated[
        list[float],
        "Miss rates of the recent rounds in up to 20 parts of ten or more, the oldest first.",
    ]
    rounds: int
    miss_rate: float | None
    open: int


class Selection(StrEnum):
    """Which streams are wanted."""

    ALL = "all"
    ALERTS = "alerts"
    STARTING = "starting"
    ARCHIVED = "archived"


@dataclass(frozen=True, slots=True)
class OverviewView:
    """Streams in a line each: those off target first, then by name, a page at a time."""

    streams: Annotated[list[StreamLine], "Those of this page."]
    matched: Annotated[int, "How many there are on all pages."]
    counts: Annotated[
        dict[Selection, int], "How many there are of each kind; all are those that are not archived."
    ]
    quarantined: dict[str, str]


@dataclass(frozen=True, slots=True)
class ChangeView:
    """A change of a stream's settings, a calibration, or a shadow that was promoted."""

    at: str
    kind: Annotated[str, "Changed, calibrated or promoted."]
    content: Annotated[dict[str, Json], "The new values, by name."]


@dataclass(frozen=True, slots=True)
class RecentRounds:
    """Sizes and delays of the most recent answered rounds, up to 500 of them."""

    rounds: Annotated[int, "How many they are."]
    median_size: Annotated[float | None, "Null if it is unbounded."]
    empty: Annotated[float | None, "Share of empty sets or intervals."]
    full: Annotated[float | None, "Share of sets that held every candidate."]
    unbounded: Annotated[float | None, "Share of intervals without an end."]
    median_seconds: Annotated[float | None, "Half of the answers came within this time."]
    late_seconds: Annotated[float | None, "Nine in ten answers came within this time."]
    late_rounds: Annotated[float, "About how many rounds pass before an answer comes."]
    largest_batch: Annotated[int, "The most answers that came at one moment."]


@dataclass(frozen=True, slots=True)
class LevelHistoryView:
    """The curves of one of several levels, as those of a stream of this alpha alone."""

    alpha: float
    miss_rate: Annotated[list[float | None], "Of all rounds up to here."]
    mean_size: Annotated[list[float | None], "Of all rounds up to here."]
    local_miss_rate: Annotated[list[float | None], "Of the rounds since the item before."]
    local_mean_size: Annotated[list[float | None], "Of the rounds since the item before."]
    band: Annotated[
        list[tuple[float, float]], "Where the overall miss rate stays if rounds miss at alpha."
    ]
    last: Annotated[list[int], "The newest 200 answered rounds, the oldest first: 1 is a miss."]
    proven: ProvenBounds


@dataclass(frozen=True, slots=True)
class HistoryView:
    """Miss rate and mean size at some answers, and what alpha would give by chance.

    Apart from ``last``, ``alarms`` and ``changes``, every list has an item for each of these answers.
    """

    alpha: float
    rounds: Annotated[list[int], "How many answers had come."]
    at: Annotated[list[str], "When the last of them came."]
    miss_rate: Annotated[
        list[float | None],
        "Of all rounds up to here; of decisions, the share of accepted answers that were wrong.",
    ]
    mean_size: Annotated[list[float | None], "Of all rounds up to here."]
    local_miss_rate: Annotated[list[float | None], "Of the rounds since the item before."]
    local_mean_size: Annotated[list[float | None], "Of the rounds since the item before."]
    accepted_share: Annotated[
        list[float | None] | None, "Of all decisions up to here; null where the stream makes none."
    ]
    local_accepted_share: Annotated[
        list[float | None] | None, "Of the decisions since the item before."
    ]
    band: Annotated[
        list[tuple[float, float]],
        "Where the overall miss rate stays if rounds miss with probability alpha: at every round at "
        "once, except with probability 1 %.",
    ]
    last: Annotated[list[int], "The newest 200 answered rounds, the oldest first: 1 is a miss."]
    on_target: Annotated[int, "How many of them had the present alpha."]
    alarms: Annotated[list[AlarmView], "The newest hundred, the oldest first."]
    changes: Annotated[
        list[ChangeView], "Of the settings, and calibrations: the newest hundred, the oldest first."
    ]
    recent: RecentRounds
    proven: Annotated[ProvenBounds | None, "Null once the target was changed."]
    levels: list[LevelHistoryView] | None


@dataclass(frozen=True, slots=True)
class RoundView:
    """One round of the log; what depends on its answer is null where there is none."""

    round: int
    id: str
    at: str
    threshold: float | None
    size: float | None
    labels: tuple[Label, ...] | None
    interval: Pair | None
    decision: Annotated[Literal["accepted", "referred"] | None, "Of decisions; null elsewhere."]
    features: Annotated[
        dict[str, float | None] | list[float | None] | None,
        "By name, or in order where they have none; null where none are known.",
    ]
    groups: list[str | int]
    answer: Annotated[
        Literal["hit", "miss", "skip"] | dict[str, bool | Label] | None,
        "As it was given, a word or its fields by name; null while the round is open.",
    ]
    answered_at: Annotated[str | None, "When its answer came."]
    amended_at: Annotated[str | None, "When the answer was last amended; null if it never was."]
    first_answer: Annotated[
        Literal["hit", "miss"] | dict[str, bool | Label] | None, "The first one, if it was amended."
    ]
    missed: Annotated[bool | None, "Whether the set missed the truth; null while that is not known."]
    weight: Annotated[float | None, "How many rounds the answer counts for."]
    score: Annotated[float | None, "The true label's score, where the answer revealed it."]
    key: Annotated[str | None, "The caller's own, if one was given."]
    metadata: Annotated[dict[str, Json] | None, "As it was given."]
    erased: Annotated[bool, "Whether its content was erased; it still counts in the statistics."]
    levels: Annotated[
        list[LevelPrediction] | None,
        "What it showed on each level, the smallest alpha first; null where there is one, or erased.",
    ]


@dataclass(frozen=True, slots=True)
class RoundsView:
    """The newest rounds, the newest first."""

    rounds: list[RoundView]
    next: Annotated[int | None, "Ask for what comes before this round; null if nothing does."]


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased."""

    erased: Annotated[int, "Rounds; those that were erased before do not count."]


@dataclass(frozen=True, slots=True)
class Picture:
    """A prediction with the picture that it is about."""

    prediction: Prediction
    picture: Annotated[list[list[float]], "Eight rows of eight grey values up to 16."]


@dataclass(frozen=True, slots=True)
class Simulated:
    """How many rounds a simulated person answered, and how many of the sets missed."""

    rounds: int
    misses: int


@dataclass(frozen=True, slots=True)
class Health:
    """That the service works, and which streams it has quarantined."""

    quarantined: list[str]
    status: Annotated[Literal["ok"], "That all is well."] = "ok"
