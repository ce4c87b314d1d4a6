"""A predictor that watches its own miss rate: the same watch however its rounds are played and kept."""

import pickle

import numpy as np
import pytest

from keyhole import HIT, MISS, Predictor
from keyhole.errors import InvalidError
from keyhole.predictor.monitor import Alarm, Monitor, Watch

SCORES = np.random.default_rng(1).dirichlet([0.3] * 4, size=300)
LABELS = (SCORES.cumsum(axis=1) > np.random.default_rng(2).random((300, 1))).argmax(axis=1).tolist()


def test_nobody_watches_unless_asked() -> None:
    with pytest.raises(InvalidError, match="watch=True"):
        _ = Predictor(alpha=0.1).watch


def test_the_watch_is_the_monitor_of_the_misses() -> None:
    predictor = Predictor(alpha=0.1, watch=True, history=300)
    for row, label in zip(SCORES, LABELS, strict=True):
        predictor.learn(predictor.predict(row), label=label)
    expected = Watch()
    for heard, miss in enumerate(predictor.history()["miss"].tolist()):
        Monitor(alpha=0.1).observe(expected, miss, heard=heard)
    assert predictor.watch == expected
    assert not expected.starting


def test_a_batch_is_watched_as_its_rounds_would_be() -> None:
    """Kills: a batch that forgets the watch."""
    alone, together = (Predictor(alpha=0.1, watch=True) for _ in range(2))
    together.learn_batch(together.predict_batch(SCORES), LABELS)
    alone.learn_batch([alone.predict(row) for row in SCORES], LABELS)
    assert alone.watch == together.watch
    assert together.watch.rounds == 300


def test_the_watch_goes_on_from_file_and_pickle() -> None:
    predictor = Predictor(alpha=0.1, watch=True)
    for _ in range(220):
        predictor.learn(predictor.predict([0.7, 0.3]), MISS)
    assert predictor.watch.alarm is Alarm.TOO_MANY
    for copied in (Predictor.restore(predictor.dump()), pickle.loads(pickle.dumps(predictor))):  # noqa: S301
        assert copied.watch == predictor.watch
        assert "more often than 0.1, since about answer 202;" in copied.notes[-1]


def test_history_is_not_watched() -> None:
    predictor = Predictor(alpha=0.1, watch=True)
    predictor.calibrate(SCORES, LABELS)
    assert predictor.watch == Watch()


def test_answers_that_may_be_wrong_are_watched_without_harm() -> None:
    """Kills: the logarithm of a factor below 0, which a corrected answer makes."""
    predictor = Predictor(alpha=0.1, watch=True)
    for n in range(200):
        predictor.learn(predictor.predict([0.7, 0.3]), MISS if n % 2 else HIT, wrong=0.4)
    assert predictor.watch.rounds == 200
    assert min(predictor.watch.evidence) >= 0.0
