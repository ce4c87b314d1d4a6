"""What requests and responses look like."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from keyhole.store.blueprint import DAY

Label = str | Annotated[int, Field(ge=-(2**63), lt=2**63)] | float
Key = Annotated[str, Field(min_length=1, max_length=200, pattern="^[ -~]+$")]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


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
    learner: Annotated[str | None, Field(max_length=64, description="See 'keyhole learners'.")] = None
    alpha: Annotated[float, Field(description="Target miss rate, between 0 and 1/2.", examples=[0.1])]
    horizon: Annotated[
        int | None, Field(ge=1, le=10**12, description="Number of rounds to come, if known.")
    ] = None
    arms: Annotated[int | None, Field(ge=2, le=5000, description="Number of thresholds.")] = None
    options: Annotated[
        dict[str, float | list[float] | None] | None,
        Field(description="Further parameters of the learner, by name."),
    ] = None
    labels: Annotated[
        list[str] | None,
        Field(max_length=10_000, description="Names for the places of an array of scores."),
    ] = None
    power: Annotated[
        float | None, Field(description="Exponent of the scores; 1 takes them as they are.")
    ] = None
    bound: Annotated[float | None, Field(description="Largest residual: makes it a regression.")] = None
    scale: Annotated[
        float | None, Field(description="Residual that scores 1/2, instead of a bound.")
    ] = None
    regime: Annotated[
        Literal["bandit", "semi-bandit", "full"], Field(description="What the answers can tell.")
    ] = "semi-bandit"
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


class Output(_Strict):
    """A model's output: scores in [0, 1] by label or as an array, or the centre of an interval."""

    scores: dict[str, float] | list[float] | None = None
    centre: float | None = None

    @model_validator(mode="after")
    def _one(self) -> "Output":
        if (self.scores is None) == (self.centre is None):
            raise ValueError("give scores or a centre, one of them")
        return self

    @property
    def value(self) -> Any:
        """The one that was given."""
        return self.centre if self.scores is None else self.scores


class KeyedOutput(Output):
    """A model's output in a batch; the key makes a retry give the same prediction."""

    key: Key | None = None


class Outputs(_Strict):
    """Many model outputs at once."""

    predictions: Annotated[list[KeyedOutput], Field(min_length=1, max_length=1000)]


class Feedback(_Strict):
    """One of: the true label, a hit, or a miss."""

    label: Label | None = None
    hit: Literal[True] | None = None
    miss: Literal[True] | None = None

    @model_validator(mode="after")
    def _one(self) -> "Feedback":
        if (self.label is not None) + bool(self.hit) + bool(self.miss) != 1:
            raise ValueError("give label, hit or miss, one of them")
        return self

    @property
    def answer(self) -> Any:
        """The one that was given, as the store takes it."""
        if self.label is not None:
            return {"label": self.label}
        return "hit" if self.hit else "miss"


class FeedbackFor(Feedback):
    """Feedback in a batch."""

    id: Annotated[str, Field(max_length=200)]


class Feedbacks(_Strict):
    """Feedback to many predictions at once, each counted or refused on its own."""

    feedback: Annotated[list[FeedbackFor], Field(min_length=1, max_length=1000)]


class Prediction(BaseModel):
    """A set or an interval to show; it stays open until it is answered or expires."""

    id: str
    round: int
    threshold: float | None
    labels: list[Label] | None = None
    interval: tuple[float | None, float | None] | None = None
    size: float | None
    expires: str


class Predictions(BaseModel):
    """The predictions of a batch, in order."""

    predictions: list[Prediction]


class Counted(BaseModel):
    """An answer that is durable."""

    id: str
    stream: str
    missed: bool
    repeated: bool


class CountedOrNot(BaseModel):
    """For each answer of a batch what was counted, or why not."""

    results: list[dict[str, Any]]


class Recent(BaseModel):
    """The last window."""

    window: int
    rounds: int
    misses: int
    miss_rate: float | None
    alert: str
    p_value: float | None


class Stream(BaseModel):
    """What a stream is and where it stands."""

    name: str
    learner: str
    parameters: dict[str, Any]
    needs: str
    guarantee: str
    source: str
    alpha: float
    regime: str
    kind: Literal["labels", "interval"]
    labels: list[str] | None
    score: dict[str, Any]
    open_limit: int
    lifetime: float
    created: str
    archived: str | None
    predicted: int
    rounds: int
    misses: int
    open: int
    expired: int
    broken_bounds: int
    miss_rate: float | None
    mean_size: float | None
    recent: Recent
    distribution: dict[str, list[float | None]]
    notes: list[str]


class Streams(BaseModel):
    """Every stream, the oldest first."""

    streams: list[Stream]


class History(BaseModel):
    """The miss rate and mean size up to some rounds, with the band alpha would give by chance."""

    alpha: float
    rounds: list[int]
    miss_rate: list[float]
    mean_size: list[float | None]
    band: list[tuple[float, float]]


class Entries(BaseModel):
    """The newest rounds, the newest first."""

    rounds: list[dict[str, Any]]


class Problem(BaseModel):
    """What went wrong."""

    error: dict[str, str | None]
