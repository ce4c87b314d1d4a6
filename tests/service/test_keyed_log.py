"""A stream's log, played by the fold over events: every set and the last state are the service's."""

import json
from typing import Any

import numpy as np
import pytest

from keyhole.feedback import HIT, MISS
from keyhole.keyed import Answered, Asked, Event, Kind, make_fold
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry
from tests.service.scene import NOW, read_table

LABELS = ("ant", "bee", "cat")


def live(database: Database, *, rounds: int) -> None:
    """Play rounds five at a time, answered backwards, every seventh not at all."""
    rng = np.random.default_rng(4)
    for _ in range(rounds // 5):
        asks = [
            proposals.Query(dict(zip(LABELS, row, strict=True))) for row in rng.random((5, 3)).tolist()
        ]
        opened = proposals.predict(database, "pets", asks=asks, now=NOW)
        replies = []
        for one in reversed(opened):
            label = LABELS[rng.integers(3)]
            told: Any = {"label": label} if label in one else "miss"
            if one.round % 7:
                replies.append(answers.Reply(one.id, told))
        answers.answer(database, replies, now=NOW)


def read_events(database: Database) -> tuple[list[Event], list[float]]:
    """Return the log as events, and the thresholds that the service played."""
    asked = read_table(database, schema.rounds)
    told = read_table(database, schema.answers)
    events: list[tuple[int, Event]] = [
        (
            row.version,
            Asked(str(row.number), dict(zip(LABELS, np.frombuffer(row.output).tolist(), strict=True))),
        )
        for row in asked
    ]
    for reply in told:
        answer = json.loads(reply.answer)
        name = str(reply.number)
        if isinstance(answer, dict):
            events.append((reply.version, Answered(name, label=answer["label"])))
        else:
            events.append((reply.version, Answered(name, HIT if answer == "hit" else MISS)))
    events.sort(key=lambda one: one[0])
    return [event for _, event in events], [
        row.threshold for row in sorted(asked, key=lambda r: r.number)
    ]


@pytest.mark.parametrize("learner", ["logit-tracker", "ocp-unlock+"])
def test_the_fold_plays_the_log_of_a_stream_bit_for_bit(light: Database, learner: str) -> None:
    arms = 8 if learner == "ocp-unlock+" else None
    fold = make_fold(learner, alpha=0.1, arms=arms, seed=9)
    setup = make_fold(learner, alpha=0.1, arms=arms, seed=fold.seed_of("pets")).setup
    registry.create(light, "pets", setup=setup, now=NOW)
    live(light, rounds=150)
    events, thresholds = read_events(light)
    state, said = fold.run("pets", b"", events)
    played = [one.region.threshold for one in said if one.kind is Kind.SHOWN and one.region is not None]
    stored = registry.get(light, "pets").progress
    assert played == thresholds
    assert setup.learner.pack(fold.read(state).state) == setup.learner.pack(stored.state)
    assert fold.read(state).tally.misses == stored.tally.misses
