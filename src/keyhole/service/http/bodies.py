"""Bodies: what requests look like, and how they are read.

Unknown fields are refused, and nothing is converted. A body is read once it is known who sends it: a
``ReadBody`` stands behind the dependency that checks the token. It is measured before anything is built
from it; what is long is measured, parsed and checked in a thread, so that the event loop goes on.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from keyhole.errors import BusyError, InvalidError, RefusedError
from keyhole.scores import Kind
from keyhole.service.http.faults import explain_body
from keyhole.service.http.limits import Limits
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.calibrations import Past
from keyhole.service.store.streams.proposals import Query, pack_metadata
from keyhole.service.store.streams.settings import DAY, LABELS, LONGEST
from keyhole.service.store.streams.shadows import MOST, MOST_LEVELS, NewShadow

_FEW = Field(max_length=200, fail_fast=True)
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Label = str | Whole | float
Option = Whole | float | Annotated[list[Whole | float], Field(max_length=5000, fail_fast=True)] | None
Options = Annotated[dict[str, Option], Field(max_length=100)]
Horizon = Annotated[int, Field(ge=1, le=10**12)]
Arms = Annotated[int, Field(ge=2, le=5000)]
LabelName = Annotated[str, Field(max_length=200)]
Names = Annotated[
    Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(fail_fast=True)],
    Field(max_length=200),
]
LabelNames = Annotated[list[LabelName], Field(fail_fast=True)]
Count = Annotated[int, Field(ge=0, le=200)]
Key = Annotated[str, Field(min_length=1, max_length=200, pattern="^[ -~]+$")]
Seconds = Annotated[float, Field(ge=1.0, le=3650 * DAY)]
Retention = Annotated[float, Field(ge=0.0, le=36_500 * DAY, examples=[90 * DAY])]
Window = Annotated[int, Field(ge=20, le=10**5)]
Description = Annotated[str, Field(max_length=LONGEST)]
ScoreMap = Annotated[dict[LabelName, float], Field(max_length=LABELS)]
ScoreArray = Annotated[list[float], Field(max_length=LABELS, fail_fast=True)]
LabelArray = Annotated[list[LabelName | Whole | float], Field(max_length=LABELS, fail_fast=True)]
FeatureMap = Annotated[dict[str, float | None], Field(max_length=200)]
FeatureArray = Annotated[list[float | None], _FEW]
Metadata = Annotated[
    dict[str, JsonValue] | None,
    Field(
        description="Stored with the round, at most 1 kB of JSON; rounds can be searched by it.",
        examples=[{"model": "v3"}],
    ),
]

_ANSWERS = ("label", "hit", "miss", "score", "loss", "right", "skip")
_list_answers = attrgetter(*_ANSWERS)
_MEMBERS = "Those that the case belongs to."
_WORDS = ("hit", "miss", "skip")  # which are an answer by themselves


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    def read(self) -> object:
        """Return it as the store takes it, or itself."""
        return self


class ShadowBody(Body):
    """Another learner beside that of a stream; what is left out is as in the stream."""

    name: str = Field(max_length=64, examples=["wider"], description="Its own, within the stream.")
    alpha: float | None = Field(None, examples=[0.05])
    learner: str | None = Field(None, max_length=64, examples=["aci"])
    horizon: Horizon | None = Field(None, examples=[10_000])
    arms: Arms | None = Field(None, examples=[100])
    options: Options | None = Field(None, examples=[{"step": 0.05}])

    def read(self) -> NewShadow:
        return NewShadow(**self.__dict__)


class NewStream(Body):
    """The settings of a stream."""

    name: str = Field(
        max_length=64, examples=["triage"], description="Letters, digits, dots, dashes, underscores."
    )
    alpha: float | Annotated[list[float], Field(min_length=2, max_length=MOST_LEVELS)] = Field(
        examples=[0.1],
        description="The share of misses to aim at; several, as [0.05, 0.1, 0.2], give nested sets or "
        "intervals, each with a promise of its own.",
    )
    kind: Kind | None = Field(
        None,
        description="What is predicted: sets of labels; intervals around a centre; intervals from the "
        "lower and upper quantile of a model; or decisions, whether to accept an answer. By default "
        "what the other settings imply.",
    )
    learner: str | None = Field(None, max_length=64)
    horizon: Horizon | None = None
    arms: Arms | None = None
    options: Options | None = None
    features: Names | Count | None = Field(
        None,
        description="Names of the features of every case, or how many there are.",
        examples=[["hour"]],
    )
    groups: Names | Count | None = Field(
        None,
        description="Names of groups, which may overlap; each is to miss at the target rate.",
        examples=[["weekend"]],
    )
    labels: LabelNames | None = Field(
        None, max_length=LABELS, description="Names for the positions of an array of scores."
    )
    power: float | None = Field(None, description="Exponent of the scores; 1 leaves them unchanged.")
    at_least: int | None = Field(
        None, ge=0, le=LABELS, description="Fewest labels in a set; with 1 no set is empty."
    )
    at_most: int | None = Field(
        None, ge=1, le=LABELS, description="Most labels in a set; misses may then exceed alpha."
    )
    bound: float | None = Field(None, description="Largest possible residual, for intervals.")
    scale: float | None = Field(
        None,
        description="A first guess of the typical residual, for intervals without a bound; it is "
        "estimated from the first true values.",
    )
    score: dict[str, JsonValue] | None = Field(
        None,
        max_length=100,
        description="A score by its name, with its settings, as streams show theirs: also one that a "
        "package brings. It says the kind.",
        examples=[{"name": "scaled residuals", "side": "upper"}],
    )
    side: Literal["both", "upper", "lower"] | None = Field(
        None, description="Intervals, or only an upper or a lower bound."
    )
    feedback: Literal["bandit", "semi-bandit", "full", "accepted", "referred", "both"] | None = Field(
        None,
        description="What answers can reveal: bandit, semi-bandit (the default) or full; of decisions, "
        "which cases are judged: accepted (the default), referred or both.",
    )
    seed: int | None = Field(
        None, ge=0, lt=2**64, description="Fixes every draw; omit it in production."
    )
    open_limit: int | None = Field(None, ge=1, le=10**6)
    least_chance: float | None = None
    lifetime: Seconds | None = None
    window: Window | None = None
    description: Description | None = None
    retention: Retention | None = Field(
        None, description="Seconds after which the content of rounds is erased; by default it is kept."
    )
    calibrate_from: str | None = Field(
        None, max_length=64, description="A stream whose labelled rounds calibrate this one."
    )
    shadows: Annotated[list[ShadowBody], Field(max_length=MOST)] | None = Field(
        None,
        description="Other learners that get the same answers and record what they would have done.",
        examples=[[{"name": "wider", "alpha": 0.05}]],
    )


class UpdateBody(Body):
    """What is to change; what is left out stays as it is."""

    alpha: float | None = None
    lifetime: Seconds | None = None
    window: Window | None = None
    labels: LabelNames | None = Field(
        None, max_length=LABELS, description="Labels to append to the existing ones."
    )
    description: Description | None = None
    retention: Retention | None = Field(
        None, description="Seconds after which the content of rounds is erased; 0 keeps it."
    )


class OutputBody(Body):
    """A model's output: scores in [0, 1] by label or as an array, a centre, or lower and upper."""

    scores: ScoreMap | ScoreArray | None = Field(
        None, description="A score for each label, or for each position.", examples=[{"cat": 0.7}]
    )
    labels: LabelArray | None = Field(
        None, description="Names for the positions of an array; unlike keys they may be numbers."
    )
    centre: float | None = Field(None, description="The model's point forecast, for intervals.")
    lower: float | None = Field(None, description="The model's lower quantile, for bands.")
    upper: float | None = Field(None, description="Its upper quantile.")
    features: FeatureMap | FeatureArray | None = Field(
        None,
        description="By name or in order; a feature that is omitted or null is missing.",
        examples=[{"hour": 7}],
    )
    groups: Annotated[list[str | Whole], _FEW] = Field(
        default_factory=list, description=f"{_MEMBERS[:-1]}, by name or number.", examples=[["weekend"]]
    )
    metadata: Metadata = None

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

    def read(self, key: str | None = None) -> Query:
        metadata = None if self.metadata is None else pack_metadata(self.metadata)
        return Query(self.output, key, self.features, self.groups, metadata)

    @property
    def output(self) -> object:
        if self.labels is not None and isinstance(self.scores, list):
            return dict(zip(self.labels, self.scores, strict=True))
        if self.lower is not None:
            return (self.lower, self.upper)
        return self.centre if self.scores is None else self.scores


class KeyedOutputBody(OutputBody):
    """A model's output in a batch; the key makes a retry give the same prediction."""

    key: Key | None = None


class OutputsBody(Body):
    """Many model outputs at once."""

    predictions: list[KeyedOutputBody] = Field(min_length=1, max_length=1000, fail_fast=True)

    def read(self) -> list[Query]:
        return [output.read(output.key) for output in self.predictions]


class PastBody(OutputBody):
    """A round of history: a model's output and the true label, or value."""

    label: Label


class CaseBody(Body):
    """A model's answer to accept or to refer: its score, or several candidates with a score each."""

    score: float | None = Field(None, description="The model's confidence, in [0, 1].", examples=[0.93])
    candidates: ScoreMap | None = Field(
        None, description="A score for each; the best is decided on.", examples=[{"invoice": 0.93}]
    )
    groups: Annotated[list[str], _FEW] = Field(
        default_factory=list, description=_MEMBERS, examples=[["new customers"]]
    )
    metadata: Metadata = None

    @model_validator(mode="after")
    def _one(self) -> "CaseBody":
        if (self.score is None) == (self.candidates is None):
            raise ValueError("give a score or candidates, one of them")
        return self

    def read(self, key: str | None = None) -> Query:
        metadata = None if self.metadata is None else pack_metadata(self.metadata)
        return Query(self.output, key, None, self.groups, metadata)

    @property
    def output(self) -> object:
        return self.candidates if self.score is None else self.score


class JudgedBody(CaseBody):
    """A case of history: a score, or candidates, and whether the answer was right."""

    right: bool = Field(description="Whether the answer was right.", examples=[True])


class Calibration(Body):
    """History with its labels, or of decisions with its judgements, for a stream without rounds."""

    rounds: list[PastBody] = Field(default_factory=list, max_length=10_000, fail_fast=True)
    decisions: list[JudgedBody] = Field(
        default_factory=list,
        max_length=10_000,
        fail_fast=True,
        examples=[[{"score": 0.93, "right": True}]],
    )
    after: int | None = Field(
        None, ge=0, description="How many rounds were sent before these; repeated rounds count once."
    )

    @model_validator(mode="after")
    def _one(self) -> "Calibration":
        if bool(self.rounds) == bool(self.decisions):
            raise ValueError("give rounds or decisions, at least one and not both")
        return self

    def read(self) -> tuple[list[Past], int | None]:
        past = [Past(one.output, one.label, one.features, one.groups) for one in self.rounds]
        past += [Past(one.output, one.right, None, one.groups) for one in self.decisions]
        return past, self.after


class KeyedCaseBody(CaseBody):
    """A case in a batch; the key makes a retry give the same decision."""

    key: Key | None = None


class CasesBody(Body):
    """Many cases at once."""

    decisions: list[KeyedCaseBody] = Field(min_length=1, max_length=1000, fail_fast=True)

    def read(self) -> list[Query]:
        return [case.read(case.key) for case in self.decisions]


class AnswerBody(Body):
    """One of: the true label, a hit, a miss, the true label's score, a loss; or that none will come."""

    label: Label | None = Field(None, examples=["cat"])
    hit: Literal[True] | None = Field(None, description="The set contained the truth.")
    miss: Literal[True] | None = Field(None, description="It did not.")
    score: float | None = Field(None, description="The true label's score, in [0, 1].", examples=[0.4])
    loss: float | None = Field(
        None, description="A graded answer in [0, 1]: 0 is a hit, 1 a miss.", examples=[0.25]
    )
    right: bool | None = Field(
        None,
        description="Of a decision: whether the answer was right; of a referred case, whether "
        "it would have been.",
    )
    skip: Literal[True] | None = Field(
        None, description="Nobody will answer: the round is closed and teaches nothing."
    )
    chance: float | None = Field(
        None,
        description="The known probability that an answer comes, where some never do: it counts for "
        "1 / chance rounds. At least the stream's least_chance.",
        examples=[0.5],
    )
    wrong: float | None = Field(
        None,
        description="The known probability, below 1/2, that the answer is the opposite of the truth.",
        examples=[0.1],
    )

    judged: Literal["hit", "miss"] | bool | None = Field(
        None,
        description="The verdict of a judge with unknown error rates: hit or miss; for a decision, "
        "whether it was right. Alone, or beside the truth in rounds picked at random to be checked.",
        examples=["miss"],
    )

    @model_validator(mode="after")
    def _one(self) -> "AnswerBody":
        missing = _list_answers(self).count(None)
        if self.judged is not None and missing == len(_ANSWERS):
            return self
        if missing != len(_ANSWERS) - 1:
            raise ValueError(f"give {', '.join(_ANSWERS)}, one of them")
        if self.skip and (self.chance, self.wrong, self.judged) != (None, None, None):
            raise ValueError("chance and wrong speak of an answer, and skip says that none comes")
        return self

    def read(self) -> str | dict[str, object]:
        given = self.model_dump(exclude={"id"}, exclude_none=True)
        only = next(iter(given)) if len(given) == 1 else None
        return only if only in _WORDS else given


class AnswerOfBatch(AnswerBody):
    """An answer, and the prediction that it is to."""

    id: str = Field(max_length=200)


class AnswersBody(Body):
    """Answers to many predictions at once, each counted or refused on its own."""

    answers: list[AnswerOfBatch] = Field(min_length=1, max_length=1000, fail_fast=True)

    def read(self) -> list[Reply]:
        return [Reply(one.id, one.read()) for one in self.answers]


class SimulationBody(Body):
    """How many rounds a simulated person should answer."""

    rounds: int = Field(10, ge=1, le=100)


BATCHES = (OutputsBody, CasesBody, AnswersBody, Calibration)
BODIES = (
    NewStream, UpdateBody, ShadowBody, Calibration, OutputBody, OutputsBody, CaseBody, CasesBody,
    AnswerBody, AnswersBody, SimulationBody,
)  # fmt: skip

_SMALL = 32_768  # Bytes: reading so few takes the event loop less time than starting a thread.
_NESTS = {dict, list}
TAKEN = "body_bytes"  # what a request's state says of its body
_PIECE = 65_536  # Bytes measured at a time: measuring takes ten times their room.
_UNMARKED = bytes(set(range(256)) - set(b'[]{},"'))


@dataclass
class Bodies:
    """What bodies may take, each, and all together until their requests are done."""

    limits: Limits
    taken: int = 0  # bytes


@dataclass(frozen=True)
class ReadBody:
    """A dependency that gives what the body of a request says, read by a model."""

    model: type[Body]

    async def __call__(self, request: Request) -> object:
        bodies, pieces, size = request.app.state.bodies, [], 0
        limits = bodies.limits
        async for piece in request.stream():
            size += len(piece)
            if size > limits.body_bytes:
                raise RefusedError(
                    f"the body is larger than {limits.body_bytes:,} bytes; send smaller batches",
                    code="too_large",
                )
            # What is small is let in even then, so that long bodies cannot keep everybody out.
            if size > _SMALL and bodies.taken + len(piece) > limits.bodies_bytes:
                raise BusyError("too many long bodies are being read; try again")
            bodies.taken += len(piece)
            request.scope["state"][TAKEN] = size
            pieces.append(piece)
        content = b"".join(pieces)
        if size <= _SMALL:
            return parse(self.model, content, limits)
        return await run_in_threadpool(parse, self.model, content, limits)


def parse(model: type[Body], content: bytes, limits: Limits) -> object:
    # What is not a batch has few values, and every wrong one of them takes time and space.
    most = limits.batch_elements if issubclass(model, BATCHES) else limits.elements
    check_shape(content, elements=most, depth=limits.depth)
    try:
        found = model.model_validate_json(content)
    except ValidationError as error:
        raise explain_body(model, content, error) from None
    check_names(content, found)
    return found.read()


def check_names(content: bytes, found: Body) -> None:
    """Raise if an object of the body has a name twice: which one is meant nobody knows."""
    entries, values = 0, list[object]([found])
    while values:
        value = values.pop()
        if isinstance(value, Body):
            entries += len(value.model_fields_set)
            values += value.__dict__.values()
        elif isinstance(value, dict):
            entries += len(value)
            if not _NESTS.isdisjoint(map(type, value.values())):
                values += value.values()
        elif isinstance(value, list) and value and not isinstance(value[0], (float, str)):
            values += value
    if content.count(b":") == entries:  # Every name has one, and none is within a string.
        return
    plain = content.replace(rb"\\", b"").replace(rb"\"", b"")
    if b"".join(plain.split(b'"')[::2]).count(b":") > entries:  # outside of strings
        read_object(content)


def read_object(content: str | bytes) -> object:
    """Return what JSON says, or raise if an object has a name twice."""
    return json.loads(content, object_pairs_hook=_check_pairs)


def _check_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise InvalidError(f"{twice[:80]!r} is there twice in one object; give every name once")
    return found


def check_shape(content: bytes, *, elements: int, depth: int) -> None:
    """Raise if JSON holds too many values, or holds them too deep, from its bytes alone.

    Examples
    --------
    >>> check_shape(b'{"scores": [0.5, 0.25]}', elements=10, depth=2)
    >>> check_shape(b"[[[1]]]", elements=10, depth=2)
    Traceback (most recent call last):
    ...
    keyhole.errors.RefusedError: the body is nested deeper than 2; send it flatter
    """
    opened = content.count(b"[") + content.count(b"{")
    if opened < depth and opened + content.count(b",") < elements:
        return  # Counted with what is inside strings, and still little enough.
    inside, level, count = False, 0, 0
    for piece in _cut(content):
        # Without escapes every quotation mark begins or ends a string; of the rest, few bytes matter.
        plain = piece.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in piece else piece
        bare = np.frombuffer(plain.translate(None, _UNMARKED), dtype=np.uint8)
        outside = np.logical_xor.accumulate(bare == ord('"')) == inside
        opening = ((bare == ord("[")) | (bare == ord("{"))) & outside
        closing = ((bare == ord("]")) | (bare == ord("}"))) & outside
        # Every value but the first of its list or object has a comma before it.
        count += int(np.count_nonzero(((bare == ord(",")) & outside) | opening))
        if count >= elements:
            raise RefusedError(
                f"the body holds more than {elements:,} values; send smaller batches", code="too_large"
            )
        steps = opening.astype(np.int8) - closing.astype(np.int8)
        levels = level + np.cumsum(steps[steps != 0], dtype=np.int32)
        if levels.max(initial=0) > depth:
            raise RefusedError(
                f"the body is nested deeper than {depth}; send it flatter", code="too_large"
            )
        level = int(levels[-1]) if levels.size else level
        inside ^= bool(np.count_nonzero(bare == ord('"')) % 2)


def _cut(content: bytes) -> Iterator[bytes]:
    """Yield the content in pieces, none of which ends within an escape."""
    start = 0
    while start < len(content):
        end = start + _PIECE
        while content[end - 1 : end] == b"\\":
            end += 1
        yield content[start:end]
        start = end
