"""What the service sends.

JSON has no word for NaN and the infinities: wherever a number may be one, its field says
``float | None``, and ``Sent`` writes it as null. This is decided here and nowhere else.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from keyhole.service.http.models import Label
from keyhole.service.http.round_responses import CONFIG, Interval
from keyhole.service.http.watch import Alert

Band = Annotated[list[float], Field(min_length=2, max_length=2)]


class Sent(BaseModel):
    """What every response has in common."""

    model_config = ConfigDict(frozen=True, **CONFIG)


class Recent(Sent):
    """The last window, without rounds that had another alpha."""

    window: int
    rounds: int
    misses: int
    miss_rate: float | None


class Moment(Sent):
    """An answer, and when it came."""

    answers: Annotated[int, Field(description="How many had come with it, from 1.")]
    at: str


class AlarmView(Sent):
    """A time in which rounds missed too often, or less often than they might."""

    state: Alert
    since: Annotated[Moment, Field(description="When, by the best guess, the miss rate changed.")]
    raised: Annotated[Moment, Field(description="When that was certain enough.")]
    cleared: Annotated[Moment | None, Field(description="When it was over; null while it is on.")]


class Promise(Sent):
    """Whether rounds miss as often as alpha says: of late, and over the whole life of the stream."""

    state: Annotated[
        Alert,
        Field(description="By a test that may be looked at after every round, for ever."),
    ]
    alarm: Annotated[AlarmView | None, Field(description="The last one, whether on or over.")]
    run_length: Annotated[
        float,
        Field(description="Rounds to a false alarm on average, at least, at a miss rate of alpha."),
    ]
    lifetime: Annotated[
        Band,
        Field(
            description="Miss rates that the whole life of the stream speaks for: if rounds miss with "
            "one chance, it is never outside, at any round, but for a probability of 1 %."
        ),
    ]


class DistributionView(Sent):
    """With which probability the learner would choose which threshold."""

    thresholds: list[float | None]
    probabilities: list[float | None]


class Certain(Sent):
    """What no data can make of the misses, if every answer is true: as late as they came.

    Of a gate, if every judgement came before the next decision.
    """

    excess: Annotated[float, Field(description="misses - alpha * rounds, as it is now.")]
    least: Annotated[float | None, Field(description="It cannot be less; null without a theorem.")]
    most: Annotated[float | None, Field(description="It cannot be more; null without a theorem.")]


class GroupView(Sent):
    """How a group of rounds has fared."""

    name: Annotated[str | int, Field(description="Its number, from 0, where it has no name.")]
    rounds: Annotated[
        float,
        Field(
            description="Answered rounds of the group; of a gate, those that it accepted and that were "
            "judged, audits by their chance."
        ),
    ]
    misses: float
    miss_rate: float | None
    excess: Annotated[float, Field(description="misses - alpha * rounds")]
    bound: Annotated[
        float | None,
        Field(description="No group's excess is beyond this on either side; null without a theorem."),
    ]


class StreamView(Sent):
    """What a stream is and where it stands."""

    name: str
    learner: str
    parameters: Annotated[dict[str, JsonValue], Field(description="The learner's own, by name.")]
    needs: str
    guarantee: str
    source: str
    alpha: float
    feedback: str
    kind: Annotated[
        Literal["labels", "interval", "band", "gate"],
        Field(description="What it proposes, and from what."),
    ]
    labels: list[Label] | None
    score: Annotated[dict[str, JsonValue], Field(description="How model outputs are read.")]
    features: Annotated[
        list[str] | int, Field(description="Their names, or how many there are where they have none.")
    ]
    groups: list[GroupView]
    open_limit: int
    lifetime: float
    created: str
    archived: str | None
    description: Annotated[str | None, Field(description="What people say of it.")]
    predicted: int
    rounds: int
    misses: float
    open: int
    expired: int
    skipped: Annotated[int, Field(description="Rounds closed because nobody will answer them.")]
    unreachable: Annotated[int, Field(description="True values that no threshold would have covered.")]
    calibrated: Annotated[int, Field(description="Rounds of history played before the first.")]
    miss_rate: float | None
    mean_size: Annotated[
        float | None, Field(description="Of the answered sets or intervals that were bounded.")
    ]
    median_size: Annotated[float | None, Field(description="A running median of the same.")]
    unbounded_share: Annotated[
        float | None, Field(description="Of the answered intervals, those that were unbounded.")
    ]
    accepted_share: Annotated[
        float | None, Field(description="Of a gate's decisions, those that accepted.")
    ]
    wrong_share: Annotated[
        float | None,
        Field(description="Of the accepted and judged, those that were wrong; audits by their chance."),
    ]
    recent: Recent
    promise: Promise
    distribution: Annotated[
        DistributionView | None, Field(description="Null in lists, where it would take the most room.")
    ]
    notes: Annotated[
        list[str], Field(description="What one should know of how things stand; mostly nothing.")
    ]


class StreamsView(Sent):
    """Streams, the oldest first; and of those that cannot be used, by name, why."""

    streams: list[StreamView]
    quarantined: dict[str, str] = Field(default_factory=dict)
    next: Annotated[str | None, Field(description="Ask for what comes after this; null at the end.")]


class ChangeView(Sent):
    """A change of a stream while it lives."""

    at: Annotated[str, Field(description="When it was made.")]
    kind: Annotated[str, Field(description="Changed or calibrated.")]
    content: Annotated[dict[str, JsonValue], Field(description="What is other since, by name.")]


class LatelyView(Sent):
    """What the newest answered rounds were like, up to 500 of them."""

    rounds: Annotated[int, Field(description="How many they are.")]
    median_size: Annotated[
        float | None, Field(description="The middle one of their sizes; null if it is unbounded.")
    ]
    empty: Annotated[float | None, Field(description="Share of empty sets or intervals.")]
    full: Annotated[float | None, Field(description="Share of sets that held every candidate.")]
    unbounded: Annotated[float | None, Field(description="Share of intervals without an end.")]
    median_seconds: Annotated[
        float | None, Field(description="Half of the answers came within so many seconds.")
    ]
    late_seconds: Annotated[float | None, Field(description="Nine in ten came within so many.")]


class HistoryView(Sent):
    """Miss rate and mean size at some answers, and what alpha would give by chance.

    ``last``, ``alarms`` and ``changes`` aside, every list has an item for each of these answers.
    """

    alpha: float
    rounds: Annotated[list[int], Field(description="How many answers had come.")]
    at: Annotated[list[str], Field(description="When the last of them came.")]
    miss_rate: Annotated[
        list[float | None],
        Field(
            description="Of all rounds up to here; of a gate, the share of accepted that were wrong."
        ),
    ]
    mean_size: Annotated[list[float | None], Field(description="Of all rounds up to here.")]
    local_miss_rate: Annotated[
        list[float | None], Field(description="Of the rounds since the item before.")
    ]
    local_mean_size: Annotated[
        list[float | None], Field(description="Of the rounds since the item before.")
    ]
    accepted_share: Annotated[
        list[float | None] | None,
        Field(description="Of all decisions up to here; null where the stream is no gate."),
    ]
    local_accepted_share: Annotated[
        list[float | None] | None, Field(description="Of the decisions since the item before.")
    ]
    band: Annotated[
        list[Band],
        Field(
            description="Where the miss rate of all rounds stays if rounds miss with chance alpha: "
            "at every round at once, but for a probability of 1 %."
        ),
    ]
    last: Annotated[
        list[int], Field(description="The newest 200 answered rounds, the oldest first: 1 is a miss.")
    ]
    on_target: Annotated[int, Field(description="How many of them had today's alpha.")]
    alarms: Annotated[list[AlarmView], Field(description="The newest hundred, the oldest first.")]
    changes: Annotated[
        list[ChangeView], Field(description="Of the settings, and calibrations: the newest hundred.")
    ]
    lately: Annotated[LatelyView, Field(description="Sizes and lateness of the newest rounds.")]
    certain: Annotated[
        Certain | None, Field(description="What is proven; null once the target was changed.")
    ]


class RoundView(Sent):
    """One round of the log; what its answer told is null where there is none."""

    round: int
    id: str
    at: str
    threshold: float | None
    size: float | None
    labels: list[Label] | None
    interval: Interval | None
    decision: Annotated[
        Literal["accepted", "referred"] | None, Field(description="Of a gate; null elsewhere.")
    ]
    features: Annotated[
        dict[str, float | None] | list[float | None] | None,
        Field(description="By name, or in order where they have none; null where none are known."),
    ]
    groups: list[str | int]
    answer: Annotated[
        Literal["hit", "miss", "skip"] | dict[str, bool | Label] | None,
        Field(
            description="As it was given: a word, or its fields by name.", examples=[{"label": "cat"}]
        ),
    ]
    answered_at: str | None
    missed: bool | None
    weight: Annotated[float | None, Field(description="How many rounds the answer counts for.")]
    score: float | None
    key: Annotated[str | None, Field(description="The caller's own, if one was given.")]
    metadata: Annotated[dict[str, JsonValue] | None, Field(description="As it was given.")]


class RoundsView(Sent):
    """The newest rounds, the newest first."""

    rounds: list[RoundView]
    next: Annotated[
        int | None, Field(description="Ask for what comes before this round; null if nothing does.")
    ]


class Simulated(Sent):
    """How many rounds a simulated person answered, and how many of the sets missed."""

    rounds: int
    misses: int


class Health(Sent):
    """That the service works; and which streams it keeps apart, because they cannot be used."""

    status: Literal["ok"] = "ok"
    quarantined: list[str] = Field(default_factory=list)
