"""What is compiled before the first request."""

from typing import Any

import pytest

from keyhole.learners.entries import _ENTRIES
from keyhole.service.store.streams import settings
from keyhole.service.store.streams.stream import Stream, compile_streams


def begin(learner: str, **given: Any) -> Stream:
    setup, _ = settings.make_setup(learner, alpha=0.1, seed=7, **given)
    return Stream(1, learner, setup, lifetime=1.0, window=20, created=0.0)


def test_learners_over_a_grid_are_made_ready_and_those_of_few_numbers_need_not_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grid, light = begin("ocp-unlock+", horizon=1000, arms=8), begin("kt")
    rules = [stream.setup.learner.rule for stream in (grid, light)]
    for rule in rules:
        monkeypatch.delitem(_ENTRIES, rule, raising=False)
    compile_streams([light, grid])
    assert [rule in _ENTRIES for rule in rules] == [True, False]
