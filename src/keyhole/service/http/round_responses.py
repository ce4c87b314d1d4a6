"""What the service sends about rounds, and what it says when something is wrong.

These are plain dicts: a batch holds a thousand of them, and checking each would cost more than sending.
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from keyhole.service.http.models import Label

CONFIG = ConfigDict(extra="forbid", ser_json_inf_nan="null")
Interval = Annotated[list[float | None], Field(min_length=2, max_length=2)]


@with_config(CONFIG)
class Prediction(TypedDict):
    """A set or an interval to show; it stays open until it is answered or expires."""

    id: Annotated[str, Field(description="Give it back with the answer.")]
    round: Annotated[int, Field(description="Its number in the stream, from 0.")]
    threshold: Annotated[float | None, Field(description="What a score must reach to be in the set.")]
    labels: Annotated[
        list[Label] | None, Field(description="The set; null where the stream has intervals.")
    ]
    interval: Annotated[
        Interval | None,
        Field(description="The two ends, null where it has none; null as a whole if it is empty."),
    ]
    size: Annotated[float | None, Field(description="Number of labels, or width; null if unbounded.")]
    expires: Annotated[str, Field(description="Until when it can be answered.")]


@with_config(CONFIG)
class DecisionView(TypedDict):
    """Whether to use an answer as it is, or to ask a person; it stays open until it is judged."""

    id: Annotated[str, Field(description="Give it back with the judgement.")]
    round: Annotated[int, Field(description="Its number in the stream, from 0.")]
    accepted: bool
    threshold: Annotated[float, Field(description="From which score on an answer was accepted.")]
    score: Annotated[float, Field(description="The answer's score.")]
    candidate: Annotated[Label | None, Field(description="The answer, where several were offered.")]
    expires: Annotated[str, Field(description="Until when it can be judged.")]


@with_config(CONFIG)
class DecisionsView(TypedDict):
    """The decisions of a batch, in order."""

    decisions: list[DecisionView]


@with_config(CONFIG)
class Predictions(TypedDict):
    """The predictions of a batch, in order."""

    predictions: list[Prediction]


@with_config(CONFIG)
class CountedView(TypedDict):
    """An answer that is durable."""

    id: str
    stream: str
    missed: Annotated[bool | None, Field(description="Null where the round was skipped.")]
    repeated: Annotated[bool, Field(description="Whether the service had it already.")]


@with_config(CONFIG)
class Fault(TypedDict):
    """What is wrong, in a word for programs and a sentence for people."""

    code: str
    message: str
    field: Annotated[str | None, Field(description="What was given wrongly, if it is one thing.")]


@with_config(CONFIG)
class Problem(TypedDict):
    """What went wrong."""

    error: Fault


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem}
    for status in (400, 401, 403, 404, 409, 410, 413, 415, 422, 429, 431, 503)
}


@with_config(CONFIG)
class CountedOrNot(TypedDict):
    """For each answer of a batch what was counted, or why not."""

    results: list[CountedView | Problem]


@with_config(CONFIG)
class Picture(Prediction):
    """A prediction with the picture that it is about: eight rows of eight grey values up to 16."""

    picture: list[list[float]]
