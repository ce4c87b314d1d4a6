"""What requests look like."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from keyhole.service.http.limits import Limits
from keyhole.service.store.proposals import Ask, pack_metadata
from keyhole.service.store.settings import DAY, LABELS

Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Label = str | Whole | float
Option = Whole | float | Annotated[list[Whole | float], Field(max_length=5000, fail_fast=True)] | None
Key = Annotated[str, Field(min_length=1, max_length=200, pattern="^[ -~]+$")]


Names = Annotated[
    Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(fail_fast=True)],
    Field(max_length=200),
]
LabelNames = Annotated[
    list[Annotated[str, Field(max_length=Limits.label_length)]], Field(fail_fast=True)
]
Count = Annotated[int, Field(ge=0, le=200)]
Number = float | None


_ANSWERS = ("label", "hit", "miss", "score", "loss", "right", "skip")
_WORDS = ("hit", "miss", "skip")  # which say all by themselves


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def _pack(metadata: dict[str, JsonValue] | None) -> str | None:
    return None if metadata is None else pack_metadata(metadata)


class NewStream(_Strict):
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
    regime: Annotated[
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
        str | None, Field(max_length=2000, description="What people should know of the stream.")
    ] = None
    rehearse_from: Annotated[
        str | None,
        Field(max_length=64, description="A stream whose labelled rounds teach this one first."),
    ] = None


class Amendment(_Strict):
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
        str | None, Field(max_length=2000, description="What people should know of the stream.")
    ] = None


class Output(_Strict):
    """A model's output: scores in [0, 1] by label or as an array, a centre, or lower and upper."""

    scores: Annotated[
        Annotated[dict[str, float], Field(max_length=LABELS)]
        | Annotated[list[float], Field(max_length=LABELS, fail_fast=True)]
        | None,
        Field(description="A score for each label, or for each place.", examples=[{"cat": 0.7}]),
    ] = None
    labels: Annotated[
        Annotated[list[Label], Field(max_length=LABELS, fail_fast=True)] | None,
        Field(description="Names for the places of an array; unlike keys they may be numbers."),
    ] = None
    centre: Annotated[float | None, Field(description="The model's guess, for intervals.")] = None
    lower: Annotated[float | None, Field(description="The model's lower quantile, for bands.")] = None
    upper: Annotated[float | None, Field(description="Its upper quantile.")] = None
    features: Annotated[
        Annotated[dict[str, Number], Field(max_length=200)]
        | Annotated[list[Number], Field(max_length=200, fail_fast=True)]
        | None,
        Field(
            description="By name or in order; what is left out or null is missing.",
            examples=[{"hour": 7}],
        ),
    ] = None
    groups: Annotated[
        Annotated[list[str | Whole], Field(max_length=200, fail_fast=True)],
        Field(description="Those that the case belongs to, by name or number.", examples=[["weekend"]]),
    ] = []
    metadata: Annotated[
        dict[str, JsonValue] | None,
        Field(
            description="Kept with the round, at most 1 kB of JSON; rounds are found by it.",
            examples=[{"model": "v3"}],
        ),
    ] = None

    @model_validator(mode="after")
    def _one(self) -> "Output":
        if (self.lower is None) != (self.upper is None):
            raise ValueError("lower and upper go together; give both")
        given = (self.scores, self.centre, self.lower)
        if sum(one is not None for one in given) != 1:
            raise ValueError("give scores, a centre, or lower and upper, one of them")
        if self.labels is not None:
            if not isinstance(self.scores, list) or len(self.labels) != len(self.scores):
                raise ValueError("labels go with an array of as many scores")
            if len(set(self.labels)) != len(self.labels):
                raise ValueError("labels must differ from each other")
        return self

    def ask(self, key: str | None) -> Ask:
        """Return it as the store takes it."""
        return Ask(self.value, key, self.features, self.groups, _pack(self.metadata))

    @property
    def value(self) -> Any:
        """The one that was given."""
        if self.labels is not None and isinstance(self.scores, list):
            return dict(zip(self.labels, self.scores, strict=True))
        if self.lower is not None:
            return (self.lower, self.upper)
        return self.centre if self.scores is None else self.scores


class KeyedOutput(Output):
    """A model's output in a batch; the key makes a retry give the same prediction."""

    key: Key | None = None


class Past(Output):
    """A round of history: a model's output and the true label, or value."""

    label: Label


class Rehearsal(_Strict):
    """History with its labels, for a stream without rounds."""

    rounds: Annotated[list[Past], Field(min_length=1, max_length=10_000, fail_fast=True)]
    after: Annotated[
        int | None,
        Field(ge=0, description="How many were sent before these; sent again they count once."),
    ] = None


class Outputs(_Strict):
    """Many model outputs at once."""

    predictions: Annotated[list[KeyedOutput], Field(min_length=1, max_length=1000, fail_fast=True)]


class Case(_Strict):
    """A model's answer to accept or to refer: its score, or several candidates with a score each."""

    score: Annotated[
        float | None, Field(description="How sure the model is, in [0, 1].", examples=[0.93])
    ] = None
    candidates: Annotated[
        Annotated[dict[str, float], Field(max_length=LABELS)] | None,
        Field(description="A score for each; the best is decided on.", examples=[{"invoice": 0.93}]),
    ] = None
    groups: Annotated[
        Annotated[list[str], Field(max_length=200, fail_fast=True)],
        Field(description="Those that the case belongs to.", examples=[["new customers"]]),
    ] = []
    metadata: Annotated[
        dict[str, JsonValue] | None,
        Field(
            description="Kept with the round, at most 1 kB of JSON; rounds are found by it.",
            examples=[{"model": "v3"}],
        ),
    ] = None

    @model_validator(mode="after")
    def _one(self) -> "Case":
        if (self.score is None) == (self.candidates is None):
            raise ValueError("give a score or candidates, one of them")
        return self

    def ask(self, key: str | None) -> Ask:
        """Return it as the store takes it."""
        value = self.candidates if self.score is None else self.score
        return Ask(value, key, None, self.groups, _pack(self.metadata))


class KeyedCase(Case):
    """A case in a batch; the key makes a retry give the same decision."""

    key: Key | None = None


class Cases(_Strict):
    """Many cases at once."""

    decisions: Annotated[list[KeyedCase], Field(min_length=1, max_length=1000, fail_fast=True)]


class Feedback(_Strict):
    """One of: the true label, a hit, a miss, the true label's score, a loss; or that none will come."""

    label: Annotated[
        Label | None, Field(description="The true label, or the true value.", examples=["cat"])
    ] = None
    hit: Annotated[Literal[True] | None, Field(description="The set held the truth.")] = None
    miss: Annotated[Literal[True] | None, Field(description="It did not.")] = None
    score: Annotated[
        float | None, Field(description="The true label's score, in [0, 1].", examples=[0.4])
    ] = None
    loss: Annotated[
        float | None,
        Field(description="A graded answer in [0, 1]: 0 is a hit, 1 a miss.", examples=[0.25]),
    ] = None
    right: Annotated[
        bool | None,
        Field(
            description="Of a gate's decision: whether the answer was right; of a referred case, "
            "whether it would have been."
        ),
    ] = None
    skip: Annotated[
        Literal[True] | None,
        Field(description="Nobody will answer: the round is closed, and teaches nothing."),
    ] = None
    chance: Annotated[
        float | None,
        Field(
            description="The known probability that an answer comes, where some never do: it counts "
            "for 1 / chance rounds, on average.",
            examples=[0.5],
        ),
    ] = None
    wrong: Annotated[
        float | None,
        Field(
            description="The known probability, below 1/2, that the answer says the opposite of the "
            "truth.",
            examples=[0.1],
        ),
    ] = None

    @model_validator(mode="after")
    def _one(self) -> "Feedback":
        if len(self._given) != 1:
            raise ValueError(f"give {', '.join(_ANSWERS)}, one of them")
        if self.skip and (self.chance is not None or self.wrong is not None):
            raise ValueError("chance and wrong speak of an answer, and skip says that none comes")
        return self

    @property
    def _given(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in _ANSWERS}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def answer(self) -> Any:
        """What was given, as the store takes it."""
        beside = {"chance": self.chance, "wrong": self.wrong}
        told = {**self._given, **{name: value for name, value in beside.items() if value is not None}}
        alone = next(iter(told)) if len(told) == 1 else None
        return alone if alone in _WORDS else told


class FeedbackFor(Feedback):
    """Feedback in a batch."""

    id: Annotated[str, Field(max_length=200)]


class Feedbacks(_Strict):
    """Feedback to many predictions at once, each counted or refused on its own."""

    feedback: Annotated[list[FeedbackFor], Field(min_length=1, max_length=1000, fail_fast=True)]


class Simulation(_Strict):
    """How many rounds a simulated person should answer."""

    rounds: Annotated[int, Field(ge=1, le=100)] = 10


BATCHES = (Outputs, Cases, Feedbacks, Rehearsal)
BODIES = (
    NewStream, Amendment, Rehearsal, Output, Outputs, Case, Cases, Feedback, Feedbacks, Simulation,
)  # fmt: skip
