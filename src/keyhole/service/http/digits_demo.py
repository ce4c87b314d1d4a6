"""A person in the loop: pictures of digits, the proposed set, and the person's answer."""

import threading
from contextlib import suppress
from functools import lru_cache
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.datastructures import State
from starlette.responses import Response

from keyhole.errors import StreamExistsError
from keyhole.learners import DEFAULT
from keyhole.scenarios import digits
from keyhole.service.http import bodies
from keyhole.service.http.access import covers_all, needs
from keyhole.service.http.bodies import ReadBody
from keyhole.service.http.openapi import PROBLEMS
from keyhole.service.http.views import JsonResponse
from keyhole.service.store.log import history
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query
from keyhole.service.store.tokens import Scope
from keyhole.service.wire.responses import Picture, Prediction, Receipt, Simulated, show_prediction

NAME = "digits"
_ALPHA = 0.1
_PICTURES = 5_000
_SEED = 7
_WINDOW = 200
router = APIRouter(
    prefix="/v1/demo",
    tags=["demo"],
    responses=PROBLEMS,
    dependencies=[
        Depends(needs(Scope.PREDICT)),
        Depends(needs(Scope.FEEDBACK)),
        Depends(covers_all),
    ],
)
_lock = threading.Lock()


def create(database: Database, *, now: float) -> None:
    setup, _ = settings.make_setup(
        DEFAULT,
        alpha=_ALPHA,
        labels=[str(digit) for digit in range(10)],
        power=digits.SCORE.power,
        seed=_SEED,
    )
    with suppress(StreamExistsError):
        registry.create(database, NAME, setup=setup, now=now, window=_WINDOW)


@lru_cache(maxsize=1)
def pictures() -> digits.DigitsScenario:
    """Return the pictures, the classifier's opinions and the true digits, round by round."""
    return digits.digits(_PICTURES, seed=_SEED)


@router.post("/next", response_model=Picture)
def next_picture(request: Request) -> Response:
    """Return the picture that waits for an answer; if there is none, the next one."""
    with _lock:
        shown = _propose(request.app.state)
    image = pictures().images[shown.round % _PICTURES]
    return JsonResponse(Picture(shown, image.tolist()))


@router.post("/simulate", response_model=Simulated)
def simulate(
    request: Request,
    asked: Annotated[bodies.SimulationBody, Depends(ReadBody(bodies.SimulationBody))],
) -> Response:
    """Let a simulated person, who knows every digit, answer some rounds."""
    state = request.app.state
    misses = done = 0
    with _lock:
        for _ in range(asked.rounds):
            shown = _propose(state)
            digit = str(pictures().digits[shown.round % _PICTURES])
            given = {"label": digit} if digit in (shown.labels or ()) else "miss"
            reply = Reply(shown.id, given)
            result = answers.answer(state.database, [reply], now=state.clock())[0]
            if isinstance(result, Receipt):
                done += 1
                misses += bool(result.missed)
    return JsonResponse(Simulated(done, misses))


def _propose(state: State) -> Prediction:
    """Return the newest prediction if it can still be answered, else a new one."""
    stream, now = registry.get(state.database, NAME), state.clock()
    newest, _ = history.last(state.database, NAME, count=1)
    found = newest[0] if newest else None
    is_open = found is not None and found.answered is None and found.row.at + stream.lifetime > now
    if found is not None and found.region is not None and is_open:
        expires = found.row.at + stream.lifetime
        return show_prediction(found.id, found.regions, expires=expires)
    scores = pictures().probabilities[stream.tally.predicted % _PICTURES].tolist()
    made: list[Prediction] = proposals.predict(state.database, NAME, asks=[Query(scores)], now=now)
    return made[0]
