"""What requests about streams look like."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from keyhole.service.http.limits import Limits
from keyhole.service.store.streams.settings import DAY, LABELS, LONGEST

Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Label = str | Whole | float
Option = Whole | float | Annotated[list[Whole | float], Field(max_length=5000, fail_fast=True)] | None


Names = Annotated[
    Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(fail_fast=True)],
    Field(max_length=200),
]
LabelNames = Annotated[
    list[Annotated[str, Field(max_length=Limits.label_length)]], Field(fail_fast=True)
]
Count = Annotated[int, Field(ge=0, le=200)]


class Strict(BaseModel):
    """What every body has in common: what is not known is refused, and nothing is converted."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class NewStream(Strict):
    """The settings of a stream."""

    name: Annotated[
        str,
        Field(
            max_length=64,
            examples=["triage"],
            description="Letters, digits, dots, dashes, underscores.",
        ),
    ]
    kind: Annotated[
        Literal["labels", "interval", "band", "gate"] | None,
        Field(
            description="What is proposed: sets of labels; intervals around a centre; or intervals made"
            " of the lower and upper quantile that a model gives; or, by a gate, whether to accept an "
            "answer. By default what the rest says."
        ),
    ] = None
    score: Annotated[
        dict[str, JsonValue] | None,
        Field(
            max_length=100,
            description="A score by its name, with its settings, as streams show theirs: also one that "
            "a package brings. It says the kind.",
            examples=[{"name": "scaled residuals", "side": "upper"}],
        ),
    ] = None
    learner: Annotated[str | None, Field(max_length=64, description="See 'keyhole learners'.")] = None
    alpha: Annotated[float, Field(description="Target miss rate, between 0 and 1/2.", examples=[0.1])]
    horizon: Annotated[
        int | None, Field(ge=1, le=10**12, description="Number of rounds to come, if known.")
    ] = None
    arms: Annotated[int | None, Field(ge=2, le=5000, description="Number of thresholds.")] = None
    options: Annotated[
        dict[str, Option] | None,
        Field(max_length=100, description="Further parameters of the learner, by name."),
    ] = None
    features: Annotated[
        Names | Count | None,
        Field(
            description="What is known of every case: names, or how many numbers.", examples=[["hour"]]
        ),
    ] = None
    groups: Annotated[
        Names | Count | None,
        Field(
            description="Groups of rounds that may overlap, each to miss at the target rate: names.",
            examples=[["weekend"]],
        ),
    ] = None
    labels: Annotated[
        LabelNames | None,
        Field(max_length=LABELS, description="Names for the places of an array of scores."),
    ] = None
    power: Annotated[
        float | None, Field(description="Exponent of the scores; 1 takes them as they are.")
    ] = None
    at_least: Annotated[
        int | None,
        Field(ge=0, le=LABELS, description="Labels in a set at the least; 1 for never an empty one."),
    ] = None
    at_most: Annotated[
        int | None,
        Field(
            ge=1, le=LABELS, description="Labels in a set at the most; misses may exceed alpha then."
        ),
    ] = None
    bound: Annotated[
        float | None, Field(description="Largest residual there can be, for intervals.")
    ] = None
    scale: Annotated[
        float | None,
        Field(
            description="A first guess of the typical residual, for intervals without a bound; it is "
            "found from the first true values."
        ),
    ] = None
    side: Annotated[
        Literal["both", "upper", "lower"] | None,
        Field(description="Intervals, or a bound from above or below alone."),
    ] = None
    feedback: Annotated[
        Literal["bandit", "semi-bandit", "full", "accepted", "referred", "both"] | None,
        Field(
            description="What the answers can tell: bandit, semi-bandit (the default) or full; of a "
            "gate, which cases are judged: accepted (the default), referred or both."
        ),
    ] = None
    seed: Annotated[
        int | None, Field(ge=0, lt=2**64, description="Fixes every draw; better left to chance.")
    ] = None
    open_limit: Annotated[
        int | None,
        Field(ge=1, le=10**6, description="How many rounds may wait; then the oldest expires."),
    ] = None
    lifetime: Annotated[
        float | None, Field(ge=1.0, le=3650 * DAY, description="Seconds until an open round expires.")
    ] = None
    window: Annotated[
        int | None, Field(ge=20, le=10**5, description="Answered rounds in the recent miss rate.")
    ] = None
    description: Annotated[
        str | None, Field(max_length=LONGEST, description="What people should know of the stream.")
    ] = None
    calibrate_from: Annotated[
        str | None,
        Field(max_length=64, description="A stream whose labelled rounds teach this one first."),
    ] = None


class AmendmentBody(Strict):
    """What is to change; what is left out stays as it is."""

    alpha: Annotated[float | None, Field(description="Target miss rate, between 0 and 1/2.")] = None
    lifetime: Annotated[
        float | None, Field(ge=1.0, le=3650 * DAY, description="Seconds until a new round expires.")
    ] = None
    window: Annotated[
        int | None, Field(ge=20, le=10**5, description="Answered rounds in the recent miss rate.")
    ] = None
    labels: Annotated[
        LabelNames | None,
        Field(max_length=LABELS, description="Labels to add, behind those that there are."),
    ] = None
    description: Annotated[
        str | None, Field(max_length=LONGEST, description="What people should know of the stream.")
    ] = None
