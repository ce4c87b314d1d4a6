"""Kernels compile at their first call; a service makes that call before it is asked anything."""

from keyhole.learners import LEARNERS, Learner
from keyhole.predictor import DEFAULT_LEARNER
from keyhole.rounds import propose, settle
from keyhole.scores import Probabilities
from keyhole.store import streams
from keyhole.store.database import Database


def up(database: Database) -> None:
    """Compile what the streams in the database use, and what a new one would by default."""
    learners = {DEFAULT_LEARNER: LEARNERS[DEFAULT_LEARNER](alpha=0.1)}
    learners |= {
        here.blueprint.learner.name: here.blueprint.learner for here in streams.every(database)
    }
    for learner in learners.values():
        _compile(learner)


def _compile(learner: Learner) -> None:
    state = learner.start()
    case = Probabilities().read([1.0, 0.5])
    for number in range(2):
        opened = propose(learner, state, case, number=number, draw=0.5)
        settle(learner, state, opened, label=0)
