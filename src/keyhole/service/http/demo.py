"""A person in the loop: pictures of digits, the proposed set, and the person's answer."""

import threading
from functools import lru_cache
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from keyhole.errors import StreamExistsError
from keyhole.learners import DEFAULT
from keyhole.scenarios import digits
from keyhole.service.http import responses, round_models, round_responses, round_views
from keyhole.service.http.access import needs
from keyhole.service.http.bodies import body_of, describe_body
from keyhole.service.http.round_responses import PROBLEMS
from keyhole.service.store.log import history
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Opened, Query
from keyhole.service.store.tokens import Scope

NAME = "digits"
_ALPHA = 0.02
_PICTURES = 5_000
_SEED = 7
_WINDOW = 200
router = APIRouter(
    prefix="/v1/demo",
    tags=["demo"],
    responses=PROBLEMS,
    dependencies=[Depends(needs(Scope.PREDICT)), Depends(needs(Scope.FEEDBACK))],
)
_turn = threading.Lock()


def create(database: Database, *, now: float) -> None:
    """Make the demo's stream unless it is there."""
    setup, _ = settings.make_setup(
        DEFAULT,
        alpha=_ALPHA,
        labels=[str(digit) for digit in range(10)],
        power=digits.SCORE.power,
        seed=_SEED,
    )
    try:
        registry.create(database, NAME, setup=setup, now=now, window=_WINDOW)
    except StreamExistsError:
        return


@lru_cache(maxsize=1)
def pictures() -> digits.DigitsScenario:
    """Return the pictures, the classifier's opinions and the true digits, round by round."""
    return digits.digits(_PICTURES, seed=_SEED)


@router.post("/next")
def next_picture(request: Request) -> round_responses.Picture:
    """Return the picture that waits for an answer; if there is none, the next one."""
    with _turn:
        shown = _propose(request.app.state)
    image = pictures().images[shown["round"] % _PICTURES]
    return {**shown, "picture": image.tolist()}


@router.post("/simulate", openapi_extra=describe_body(round_models.SimulationBody))
def simulate(
    request: Request,
    asked: Annotated[round_models.SimulationBody, Depends(body_of(round_models.SimulationBody))],
) -> responses.Simulated:
    """Let a simulated person, who knows every digit, answer some rounds."""
    state = request.app.state
    misses = done = 0
    with _turn:
        for _ in range(asked.rounds):
            shown = _propose(state)
            reply = Reply(shown["id"], _truth(shown))
            result = answers.answer(state.database, [reply], now=state.clock())[0]
            if isinstance(result, answers.Counted):
                done += 1
                misses += bool(result.missed)
    return responses.Simulated(rounds=done, misses=misses)


def _truth(shown: round_responses.Prediction) -> Any:
    """Return what a person who knows the digit would answer."""
    digit = str(pictures().digits[shown["round"] % _PICTURES])
    return {"label": digit} if digit in (shown["labels"] or []) else "miss"


def _propose(state: Any) -> round_responses.Prediction:
    """Return the newest prediction if it can still be answered, else a new one."""
    here, now = registry.get(state.database, NAME), state.clock()
    newest, _ = history.last(state.database, NAME, count=1)
    if newest and newest[0].answer is None and newest[0].at + here.lifetime > now:
        found = newest[0]
        expires = found.at + here.lifetime
        return round_views.show_prediction(Opened(found.id, found.number, found.region, expires))
    scores = pictures().probabilities[here.tally.predicted % _PICTURES].tolist()
    (made,) = proposals.predict(state.database, NAME, asks=[Query(scores)], now=now)
    return round_views.show_prediction(made)
