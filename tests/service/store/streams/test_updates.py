"""Streams that are changed while they live."""

from typing import Any

import pytest

from keyhole.errors import InvalidError, LabelError
from keyhole.scores import find_labels
from keyhole.service.store.log import replay
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings, updates
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query
from keyhole.service.store.streams.updates import Update

NOW = 1_800_000_000.0


def make(database: Database, **given: Any) -> None:
    setup, _ = settings.make_setup(alpha=0.1, seed=7, **given)
    registry.create(database, "pets", setup=setup, now=NOW)


def test_a_wider_window_looks_back_into_the_log_and_a_narrower_one_forgets(light: Database) -> None:
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7)
    registry.create(light, "pets", setup=setup, now=NOW, window=20)
    opened = proposals.predict(light, "pets", asks=[Query([1.0])] * 40, now=NOW)
    replies = [Reply(one.id, "miss" if n in (3, 19, 39) else "hit") for n, one in enumerate(opened)]
    (skipped,) = proposals.predict(light, "pets", asks=[Query([0.9])], now=NOW)
    answers.answer(light, [*replies, Reply(skipped.id, "skip")], now=NOW)  # which is no answer
    assert registry.get(light, "pets").recent_misses == 1
    for window, misses in ((37, 3), (36, 2), (21, 2), (20, 1), (100, 3)):
        stream, effects = updates.update(light, "pets", Update(window=window), now=NOW)
        assert (stream.recent_misses, stream.recent_rounds) == (misses, min(40, window))
        assert len(effects) == 1
    assert replay.replay(light, "pets").difference is None


def test_a_change_to_what_is_already_so_is_none(light: Database) -> None:
    make(light, learner="kt", labels=["cat", "dog"])
    same = Update(alpha=0.1, lifetime=7 * 86_400.0, window=1_000, labels=["dog"], description="")
    stream, effects = updates.update(light, "pets", same, now=NOW)
    assert (stream.version, effects) == (0, [])
    for _ in range(2):
        stream, _ = updates.update(light, "pets", Update(description="of ours"), now=NOW)
        assert (stream.version, stream.description) == (1, "of ours")
    stream, effects = updates.update(light, "pets", Update(labels=["dog", "emu"]), now=NOW)
    assert find_labels(stream.setup.score) == ("cat", "dog", "emu")
    assert "now has 3 entries" in effects[0]


def test_labels_are_added_up_to_ten_thousand_places(light: Database) -> None:
    make(light, labels=[str(n) for n in range(9_998)])
    with pytest.raises(LabelError, match="9,998 labels and 3 more are more than the 10,000"):
        updates.update(light, "pets", Update(labels=["a", "b", "c"]), now=NOW)
    stream, effects = updates.update(light, "pets", Update(labels=["7", "a", "b"]), now=NOW)
    assert (stream.version, "now has 10,000 entries" in effects[0]) == (1, True)


def test_labels_are_added_only_where_a_stream_has_some(light: Database) -> None:
    make(light)
    with pytest.raises(LabelError, match="there is nothing to add"):
        updates.update(light, "pets", Update(labels=["a"]), now=NOW)


def test_a_description_of_two_thousand_letters_is_taken_and_no_longer(light: Database) -> None:
    make(light)
    stream, _ = updates.update(light, "pets", Update(description="x" * 2_000), now=NOW)
    assert stream.description == "x" * 2_000
    with pytest.raises(InvalidError, match="longer than 2000"):
        updates.update(light, "pets", Update(description="x" * 2_001), now=NOW)
    stream, _ = updates.update(light, "pets", Update(description=""), now=NOW)
    assert stream.description is None
    assert replay.replay(light, "pets").difference is None
