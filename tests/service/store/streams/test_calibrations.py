"""A stream taught by history, or by the log of another, before its first round."""

from collections.abc import Sequence
from typing import Any

import pytest

from keyhole import Predictor
from keyhole.errors import InvalidError, LabelError
from keyhole.service.store.log import replay
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, calibrations, changes, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.calibrations import Past
from keyhole.service.store.streams.proposals import Query
from keyhole.service.store.streams.stream import run_tasks

NOW = 1_800_000_000.0
HISTORY = [Past([0.9 - 0.02 * n, 0.1 + 0.02 * n], n % 2) for n in range(12)]

KINDS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "scores by place": ({}, [0.9, 0.3], 0),
    "scores by name": ({}, {"cat": 0.9, "dog": 0.3}, "dog"),
    "scores with a power": ({"power": 0.5}, [0.81, 0.09], 1),
    "named places": ({"labels": ["cat", "dog"]}, [0.9, 0.3], "dog"),
    "centres": ({"scale": 2.0}, 5.0, 6.5),
    "bounded centres": ({"bound": 10.0}, 5.0, 6.5),
    "bands": ({"kind": "band"}, (4.0, 6.0), 6.5),
}


def make(database: Database, name: str, *, source: str | None = None, **given: Any) -> None:
    setup, _ = settings.make_setup(alpha=0.1, seed=7, **given)
    registry.create(database, name, setup=setup, now=NOW, calibrate_from=source)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_made_from_a_log_stands_where_that_history_leads(light: Database, kind: str) -> None:
    given, output, label = KINDS[kind]
    make(light, "first", **given)
    for _ in range(6):
        (opened,) = proposals.predict(light, "first", asks=[Query(output)], now=NOW)
        answers.answer(light, [Reply(opened.id, {"label": label})], now=NOW)
    make(light, "second", source="first", **given)
    make(light, "taught", **given)
    calibrations.calibrate(light, "taught", [Past(output, label)] * 6, now=NOW)
    second, taught = registry.get(light, "second"), registry.get(light, "taught")
    learner = second.setup.learner
    assert second.tally.calibrated == 6
    assert second.tally.calibrated_excess == pytest.approx(taught.tally.calibrated_excess)
    assert learner.pack(second.progress.state) == learner.pack(taught.progress.state)
    assert second.progress.scale == taught.progress.scale
    assert all(replay.replay(light, name).difference is None for name in ("second", "taught"))


def test_history_may_come_in_parts_and_again_and_is_played_once(light: Database) -> None:
    make(light, "parts", learner="kt")
    predictor = Predictor("kt", alpha=0.1)
    predictor.calibrate([past.output for past in HISTORY], [past.label for past in HISTORY])
    for first, last in ((0, 5), (0, 5), (5, 12), (0, 12)):
        calibrations.calibrate(light, "parts", HISTORY[first:last], now=NOW, after=first)
    stream = registry.get(light, "parts")
    assert stream.tally.calibrated == 12
    learner = stream.setup.learner
    assert learner.pack(stream.progress.state) == learner.pack(predictor._progress.state)
    for after in (11, 13):
        with pytest.raises(InvalidError, match=f"12 rounds of history are there, not {after}"):
            calibrations.calibrate(light, "parts", HISTORY, now=NOW, after=after)


def test_history_comes_before_the_first_round(light: Database) -> None:
    make(light, "begun")
    proposals.predict(light, "begun", asks=[Query([0.9, 0.1])], now=NOW)
    with pytest.raises(InvalidError, match="has had 1 rounds"):
        calibrations.calibrate(light, "begun", HISTORY, now=NOW)
    assert registry.get(light, "begun").tally.calibrated == 0


@pytest.mark.parametrize(
    "reply", ["miss", {"miss": True, "chance": 0.5}, {"score": 0.01}, {"loss": 0.5}], ids=str
)
def test_a_log_with_misses_of_no_label_would_mislead(light: Database, reply: Any) -> None:
    """Kills: a miss that came with its chance, or as a loss, taken for no miss at all."""
    make(light, "first")
    (opened,) = proposals.predict(light, "first", asks=[Query([0.9, 0.1])], now=NOW)
    answers.answer(light, [Reply(opened.id, reply)], now=NOW)
    with pytest.raises(InvalidError, match="1 misses of stream 'first' were answered without"):
        make(light, "second", source="first")
    assert registry.list_names(light) == ["first"]


def play(database: Database, replies: Sequence[Any]) -> list[str]:
    asks = [Query([0.9, 0.1])] * len(replies)
    ids = [opened.id for opened in proposals.predict(database, "first", asks=asks, now=NOW)]
    answers.answer(database, [Reply(*one) for one in zip(ids, replies, strict=True)], now=NOW)
    return ids


def test_a_few_hits_of_no_label_are_left_out(light: Database) -> None:
    make(light, "first")
    play(light, [{"label": 0}] * 9 + ["hit", "skip", {"label": 1}])
    make(light, "second", source="first")
    assert registry.get(light, "second").tally.calibrated == 10


@pytest.mark.parametrize("reply", ["hit", {"loss": 0.0}, {"score": 0.9}], ids=str)
def test_a_log_whose_hits_have_no_label_would_mislead(light: Database, reply: Any) -> None:
    """A thumb up, or the right label: what is labelled are the misses."""
    make(light, "first")
    play(light, [{"label": 0}] * 8 + [reply, {"label": 1}])
    with pytest.raises(InvalidError, match=r"1 hits of stream .* sets too large"):
        make(light, "second", source="first")


def test_a_log_without_labels_teaches_nothing_and_says_so(light: Database) -> None:
    make(light, "first")
    calibrations.calibrate(light, "first", HISTORY, now=NOW)
    play(light, ["skip"])
    with pytest.raises(InvalidError, match="holds no labelled round"):
        make(light, "second", source="first")
    assert registry.list_names(light) == ["first"]


def test_a_log_tells_what_its_answers_were_amended_to(light: Database) -> None:
    make(light, "first")
    told = [{"label": 1}, {"label": 0}, {"miss": True}, {"label": 0}]
    ids = play(light, told)
    for place, right in ((0, {"label": 0}), (2, {"label": 1}), (2, {"label": 0})):
        tasks = answers.make_tasks([Reply(ids[place], right)], now=NOW, amends=True)
        run_tasks(light, tasks)
    make(light, "second", source="first")
    make(light, "taught")
    calibrations.calibrate(light, "taught", [Past([0.9, 0.1], 0)] * 4, now=NOW)
    second, taught = registry.get(light, "second"), registry.get(light, "taught")
    learner = second.setup.learner
    assert learner.pack(second.progress.state) == learner.pack(taught.progress.state)


def test_a_label_that_was_amended_to_a_bare_miss_is_none(light: Database) -> None:
    make(light, "first")
    (id_,) = play(light, [{"label": 0}])
    run_tasks(light, answers.make_tasks([Reply(id_, "miss")], now=NOW, amends=True))
    with pytest.raises(InvalidError, match="1 misses of stream 'first'"):
        make(light, "second", source="first")


@pytest.mark.parametrize("size", [1, 3, 5, 12])
def test_a_log_is_learnt_in_parts_as_at_once_and_each_part_is_one_event(
    light: Database, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(calibrations, "AT_ONCE", size)
    make(light, "first", learner="kt")
    opened = proposals.predict(light, "first", asks=[Query(one.output) for one in HISTORY], now=NOW)
    replies = [Reply(a.id, {"label": b.label}) for a, b in zip(opened, HISTORY, strict=True)]
    answers.answer(light, replies, now=NOW)
    make(light, "second", learner="kt", source="first")
    stream = registry.get(light, "second")
    assert (stream.tally.calibrated, stream.version) == (12, -(-12 // size))
    with light.read() as connection:
        events = changes.list_changes(connection, stream, most=100)
    assert sum(one.content["rounds"] for one in events) == 12
    assert sum(one.content["excess"] for one in events) == pytest.approx(stream.tally.calibrated_excess)
    assert replay.replay(light, "second").difference is None


@pytest.mark.parametrize(("names", "kept"), [(["north"], True), (["south"], False)])
def test_groups_of_a_log_are_learnt_where_the_new_stream_calls_them_the_same(
    light: Database, names: list[str], *, kept: bool
) -> None:
    make(light, "first", groups=["north"])
    for n in range(8):
        ask = Query([0.9, 0.4], groups=["north"] if n % 2 else [])
        (opened,) = proposals.predict(light, "first", asks=[ask], now=NOW)
        answers.answer(light, [Reply(opened.id, {"label": n % 2})], now=NOW)
    make(light, "second", source="first", groups=names)
    make(light, "taught", groups=names)
    past = [Past([0.9, 0.4], n % 2, None, names if kept and n % 2 else ()) for n in range(8)]
    calibrations.calibrate(light, "taught", past, now=NOW)
    second, taught = registry.get(light, "second"), registry.get(light, "taught")
    learner = second.setup.learner
    assert learner.pack(second.progress.state) == learner.pack(taught.progress.state)


def test_history_of_a_label_that_the_stream_does_not_have_teaches_nothing(light: Database) -> None:
    make(light, "pets", labels=["cat", "dog"])
    history = [Past({"cat": 0.9}, "cat"), Past({"cat": 0.9, "emu": 0.1}, "cat")]
    with pytest.raises(LabelError, match="label 'emu' is not one of the stream's 2 labels"):
        calibrations.calibrate(light, "pets", history, now=NOW)
    stream = registry.get(light, "pets")
    assert (stream.version, stream.tally.calibrated) == (0, 0)
