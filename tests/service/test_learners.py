"""Every learner in the table works as a stream, and makes the choices of the library's predictor."""

from typing import Any

import numpy as np
import pytest

import keyhole
from keyhole.feedback import Feedback, is_enough
from keyhole.learners import make_suited
from keyhole.service.http import views
from keyhole.service.store.log import replay
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query
from keyhole.service.store.streams.stream import compile_streams
from keyhole.service.wire.responses import Receipt
from tests.service.scene import NOW


@pytest.mark.parametrize("name", sorted(keyhole.LEARNERS))
def test_a_stream_of_any_learner_is_its_predictor_made_durable(light: Database, name: str) -> None:
    feedback = next(
        feedback for feedback in Feedback if is_enough(keyhole.LEARNERS[name].needs, feedback)
    )
    learner = make_suited(name, alpha=0.1, horizon=2000, arms=20)
    predictor: keyhole.Predictor[Any] = keyhole.Predictor(learner, feedback=feedback, seed=7)
    registry.create(light, "any", setup=predictor.setup, now=NOW)
    rng = np.random.default_rng(4)
    for _ in range(130):
        scores = rng.dirichlet(np.ones(5)).tolist()
        ours = predictor.predict(scores)
        (theirs,) = proposals.predict(light, "any", asks=[Query(scores)], now=NOW)
        assert (theirs.round, theirs.threshold, theirs.labels) == (ours.id, ours.threshold, ours.labels)
        label = int(rng.integers(5))
        tells = feedback is Feedback.FULL or (feedback is Feedback.SEMI_BANDIT and label in ours)
        if tells:
            predictor.learn(ours, label=label)
        else:
            predictor.learn(ours, keyhole.HIT if label in ours else keyhole.MISS)
        told = {"label": label} if tells else "hit" if label in ours else "miss"
        (counted,) = answers.answer(light, [Reply(theirs.id, told)], now=NOW)
        assert isinstance(counted, Receipt)
    stream = registry.get(light, "any")
    kept = stream.tally.miss_rate, stream.tally.describe().mean_size
    assert kept == (predictor.miss_rate, predictor.mean_size)
    assert replay.replay(light, "any").difference is None
    assert views.show_stream(stream).rounds == 130
    compile_streams(registry.survey(light).usable)
