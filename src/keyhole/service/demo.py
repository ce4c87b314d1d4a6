"""A person in the loop: pictures of digits, the proposed set, and the person's answer."""

import threading
from functools import lru_cache
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from keyhole.errors import StreamExistsError
from keyhole.predictor import DEFAULT_LEARNER
from keyhole.service import models, views
from keyhole.service.access import needs
from keyhole.store import answers, blueprint, history, proposals, streams
from keyhole.store.answers import Reply
from keyhole.store.database import Database
from keyhole.store.proposals import Ask
from keyhole.store.tokens import Scope
from keyhole.streams import digits

NAME = "digits"
_ALPHA = 0.02
_HORIZON = 5_000
_PICTURES = 5_000
_SEED = 7
_WINDOW = 200
router = APIRouter(
    prefix="/v1/demo",
    tags=["demo"],
    dependencies=[Depends(needs(Scope.PREDICT)), Depends(needs(Scope.FEEDBACK))],
)
_turn = threading.Lock()


class Picture(models.Prediction):
    """A prediction with the picture that it is about: eight rows of eight grey values up to 16."""

    picture: list[list[float]]


class Simulated(BaseModel):
    """How many rounds a simulated person answered, and how many of the sets missed."""

    rounds: int
    misses: int


def create(database: Database, *, now: float) -> None:
    """Make the demo's stream unless it is there."""
    plan, _ = blueprint.draft(
        DEFAULT_LEARNER,
        alpha=_ALPHA,
        horizon=_HORIZON,
        labels=[str(digit) for digit in range(10)],
        power=digits.SCORE.power,
        seed=_SEED,
        limits={"window": _WINDOW},
    )
    try:
        streams.create(database, NAME, blueprint=plan, now=now)
    except StreamExistsError:
        return


@lru_cache(maxsize=1)
def pictures() -> digits.DigitsStream:
    """Return the pictures, the classifier's opinions and the true digits, round by round."""
    return digits.digits(_PICTURES, seed=_SEED)


@router.post("/next", response_model=Picture)
def next_picture(request: Request) -> Response:
    """Return the picture that waits for an answer; if there is none, the next one."""
    state = request.app.state
    with _turn:
        waiting = _waiting(state.database) or _predicted(state.database, 1, state.clock())[0]
    image = pictures().images[waiting["round"] % _PICTURES]
    return views.sent({**waiting, "picture": image.tolist()})


@router.post("/simulate", response_model=Simulated)
def simulate(
    request: Request, rounds: Annotated[int, Body(embed=True, ge=1, le=100), Field()] = 10
) -> Response:
    """Let a simulated person, who knows every digit, answer some rounds."""
    state = request.app.state
    misses = done = 0
    with _turn:
        for _ in range(rounds):
            made = _waiting(state.database) or _predicted(state.database, 1, state.clock())[0]
            reply = Reply(made["id"], _truth(made))
            result = answers.answer(state.database, [reply], now=state.clock())[0]
            if isinstance(result, answers.Counted):
                done += 1
                misses += result.missed
    return views.sent({"rounds": done, "misses": misses})


def _truth(made: dict[str, Any]) -> Any:
    """Return what a person who knows the digit would answer."""
    digit = str(pictures().digits[made["round"] % _PICTURES])
    return {"label": digit} if digit in made["labels"] else "miss"


def _waiting(database: Database) -> dict[str, Any] | None:
    newest = history.last(database, NAME, count=1)
    if not newest or newest[0].answer is not None:
        return None
    entry = views.entry(newest[0])
    return {key: entry[key] for key in ("id", "round", "threshold", "labels", "interval", "size")}


def _predicted(database: Database, count: int, now: float) -> list[dict[str, Any]]:
    first = streams.get(database, NAME).tally.predicted
    opinions = pictures().probabilities
    asks = [Ask(opinions[(first + k) % _PICTURES].tolist()) for k in range(count)]
    return [views.prediction(made) for made in proposals.predict(database, NAME, asks=asks, now=now)]
