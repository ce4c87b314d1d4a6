"""What requests about rounds look like."""

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, model_validator

from keyhole.service.http.models import AmendmentBody, Label, NewStream, Strict, Whole
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query, pack_metadata
from keyhole.service.store.streams.settings import LABELS

Key = Annotated[str, Field(min_length=1, max_length=200, pattern="^[ -~]+$")]
Number = float | None
_ANSWERS = frozenset(("label", "hit", "miss", "score", "loss", "right", "skip"))
_WORDS = ("hit", "miss", "skip")  # which say all by themselves


def _pack(metadata: dict[str, JsonValue] | None) -> str | None:
    return None if metadata is None else pack_metadata(metadata)


class OutputBody(Strict):
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
        Field(
            default_factory=list,
            description="Those that the case belongs to, by name or number.",
            examples=[["weekend"]],
        ),
    ]
    metadata: Annotated[
        dict[str, JsonValue] | None,
        Field(
            description="Kept with the round, at most 1 kB of JSON; rounds are found by it.",
            examples=[{"model": "v3"}],
        ),
    ] = None

    @model_validator(mode="after")
    def _one(self) -> "OutputBody":
        if (self.lower is None) != (self.upper is None):
            raise ValueError("lower and upper go together; give both")
        if (self.scores, self.centre, self.lower).count(None) != 2:
            raise ValueError("give scores, a centre, or lower and upper, one of them")
        if self.labels is not None:
            if not isinstance(self.scores, list) or len(self.labels) != len(self.scores):
                raise ValueError("labels go with an array of as many scores")
            if len(set(self.labels)) != len(self.labels):
                raise ValueError("labels must differ from each other")
        return self

    def ask(self, key: str | None = None) -> Query:
        """Return it as the store takes it."""
        return Query(self.value, key, self.features, self.groups, _pack(self.metadata))

    @property
    def value(self) -> Any:
        """The one that was given."""
        if self.labels is not None and isinstance(self.scores, list):
            return dict(zip(self.labels, self.scores, strict=True))
        if self.lower is not None:
            return (self.lower, self.upper)
        return self.centre if self.scores is None else self.scores


class KeyedOutputBody(OutputBody):
    """A model's output in a batch; the key makes a retry give the same prediction."""

    key: Key | None = None


class PastBody(OutputBody):
    """A round of history: a model's output and the true label, or value."""

    label: Label


class Calibration(Strict):
    """History with its labels, for a stream without rounds."""

    rounds: Annotated[list[PastBody], Field(min_length=1, max_length=10_000, fail_fast=True)]
    after: Annotated[
        int | None,
        Field(ge=0, description="How many were sent before these; sent again they count once."),
    ] = None


class OutputsBody(Strict):
    """Many model outputs at once."""

    predictions: Annotated[list[KeyedOutputBody], Field(min_length=1, max_length=1000, fail_fast=True)]

    def ask(self) -> list[Query]:
        """Return them as the store takes them."""
        return [output.ask(output.key) for output in self.predictions]


class CaseBody(Strict):
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
        Field(
            default_factory=list,
            description="Those that the case belongs to.",
            examples=[["new customers"]],
        ),
    ]
    metadata: Annotated[
        dict[str, JsonValue] | None,
        Field(
            description="Kept with the round, at most 1 kB of JSON; rounds are found by it.",
            examples=[{"model": "v3"}],
        ),
    ] = None

    @model_validator(mode="after")
    def _one(self) -> "CaseBody":
        if (self.score is None) == (self.candidates is None):
            raise ValueError("give a score or candidates, one of them")
        return self

    def ask(self, key: str | None = None) -> Query:
        """Return it as the store takes it."""
        value = self.candidates if self.score is None else self.score
        return Query(value, key, None, self.groups, _pack(self.metadata))


class KeyedCaseBody(CaseBody):
    """A case in a batch; the key makes a retry give the same decision."""

    key: Key | None = None


class CasesBody(Strict):
    """Many cases at once."""

    decisions: Annotated[list[KeyedCaseBody], Field(min_length=1, max_length=1000, fail_fast=True)]

    def ask(self) -> list[Query]:
        """Return them as the store takes them."""
        return [case.ask(case.key) for case in self.decisions]


class AnswerBody(Strict):
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
    def _one(self) -> "AnswerBody":
        given = self._list_given()
        if len(_ANSWERS & given.keys()) != 1:
            raise ValueError("give label, hit, miss, score, loss, right, skip, one of them")
        if self.skip and len(given) > 1:
            raise ValueError("chance and wrong speak of an answer, and skip says that none comes")
        return self

    def _list_given(self) -> dict[str, Any]:
        return {name: told for name, told in self.__dict__.items() if told is not None and name != "id"}

    def read(self) -> Any:
        """Return what was given, as the store takes it."""
        told = self._list_given()
        alone = next(iter(told)) if len(told) == 1 else None
        return alone if alone in _WORDS else told


class AnswerFor(AnswerBody):
    """Feedback in a batch."""

    id: Annotated[str, Field(max_length=200)]


class AnswersBody(Strict):
    """Feedback to many predictions at once, each counted or refused on its own."""

    feedback: Annotated[list[AnswerFor], Field(min_length=1, max_length=1000, fail_fast=True)]

    def read(self) -> list[Reply]:
        """Return them as the store takes them."""
        return [Reply(one.id, one.read()) for one in self.feedback]


class SimulationBody(Strict):
    """How many rounds a simulated person should answer."""

    rounds: Annotated[int, Field(ge=1, le=100)] = 10


BATCHES = (OutputsBody, CasesBody, AnswersBody, Calibration)
BODIES = (
    NewStream, AmendmentBody, Calibration, OutputBody, OutputsBody, CaseBody, CasesBody, AnswerBody,
    AnswersBody, SimulationBody,
)  # fmt: skip
