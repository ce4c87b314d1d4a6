"""The levels of a key: what is put together of several folds, and what is refused."""

import struct
from typing import Any

import numpy as np
import pytest

from keyhole import HIT, Predictor, ScaledResiduals
from keyhole.errors import SnapshotError
from keyhole.keyed import Answered, Asked, Elapsed, Event, Kind, LevelFold, Skipped, make_fold

KEY, SCORES = "anna", [0.6, 0.3, 0.1]


def make() -> LevelFold:
    return make_fold(alpha=[0.3, 0.1], lifetime=10)


def join(*parts: bytes, version: int = 9, count: int | None = None) -> bytes:
    """Return the state of several levels, as its layout says: a head, the sizes, the parts."""
    sizes = struct.pack(f"<{len(parts)}I", *map(len, parts))
    return bytes([version, len(parts) if count is None else count]) + sizes + b"".join(parts)


def test_a_state_of_levels_is_those_of_their_folds_one_behind_the_other() -> None:
    fold, alone = make(), [make_fold(alpha=alpha, lifetime=10) for alpha in (0.1, 0.3)]
    events: list[Event] = [
        Asked("r", SCORES, at=3),
        Asked("s", SCORES, at=4),
        Answered("r", label=1, at=5),
    ]
    state, outputs = fold.run(KEY, b"", events)
    runs = [one.run(KEY, b"", events) for one in alone]
    assert state == join(*(part for part, _ in runs))
    assert outputs[-1].misses == {0.1: runs[0][1][-1].miss, 0.3: runs[1][1][-1].miss}
    assert fold.next_due(state) == 14
    assert fold.next_due(b"") is None
    assert [one.tally.answered for one in fold.read(state).values()] == [1, 1]


def test_many_keys_are_played_as_each_by_itself_and_every_level_has_its_columns() -> None:
    fold = make()
    rows: list[tuple[str, str, int, Any, Any, Any]] = []
    for n in range(12):
        rows += [("anna", str(n), n, SCORES, None, None), ("bert", str(n), n, SCORES[::-1], None, None)]
        rows += [("anna", str(n), n, None, n % 3, None), ("bert", str(n), n, None, None, True)]
    names = ("key", "id", "at", "output", "label", "hit")
    table = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    begun, _ = fold.run("anna", b"", [Asked("before", SCORES)])
    states, columns = fold.run_many({"anna": begun, "carl": b"untouched"}, table)
    assert sorted(states) == ["anna", "bert"]
    assert list(columns) == [0.1, 0.3]
    for key, state in (("anna", begun), ("bert", b"")):
        events: list[Event] = [
            Answered(name, HIT, at=at) if hit else Asked(name, output, at) if output else
            Answered(name, label=label, at=at)
            for own, name, at, output, label, hit in rows
            if own == key
        ]  # fmt: skip
        after, outputs = fold.run(key, state, events)
        assert states[key] == after
        for alpha, own in columns.items():
            places = [place for place, row in enumerate(own.row) if rows[row][0] == key]
            assert [own.id[place] for place in places] == [one.id for one in outputs]
            assert [own.kind[place] for place in places] == [one.kind for one in outputs]
            for place, one in zip(places, outputs, strict=True):
                region: Any = one.region
                labels = own.labels[own.offsets[place] : own.offsets[place + 1]].tolist()
                assert labels == ([] if region is None else list(region[alpha].labels))
                miss = None if one.misses is None else one.misses[alpha]
                assert miss == own.miss[place] or (miss is None and np.isnan(own.miss[place]))
    assert (np.diff(columns[0.1].row) >= 0).all()
    assert {"shown", "counted", "refused", "expired"} <= set(columns[0.3].kind)


def test_an_event_that_begins_no_key_leaves_it_new() -> None:
    state, (said,) = make().step(KEY, b"", Asked("r", SCORES, at=2**47))
    assert (state, said.kind) == (b"", Kind.REFUSED)


@pytest.mark.parametrize("label", [0, 1, 2])
def test_what_is_shown_misses_where_it_and_those_of_all_larger_alphas_do(label: int) -> None:
    """A level that has missed often shows more than one of a smaller alpha, which is widened to it."""
    fold: Any = make_fold(alpha=[0.1, 0.2, 0.4])
    predictor: Any = Predictor(alpha=[0.1, 0.2, 0.4], seed=fold.seed_of(KEY))
    state = b""
    for n in range(40):
        truth = label if n % 3 else 0
        state, (shown,) = fold.step(KEY, state, Asked(str(n), SCORES))
        own = predictor.predict(SCORES)
        assert shown.region == own
        state, (counted,) = fold.step(KEY, state, Answered(str(n), label=truth))
        predictor.learn(own, label=truth)
        expected = {alpha: float(truth not in one) for alpha, one in own.items()}
        assert (counted.misses, list(counted.misses)) == (expected, [0.1, 0.2, 0.4])
        assert counted.miss == expected[0.1]


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda a, b: join(a, b, version=10), "version 10, this Keyhole reads up to 9; upgrade"),
        (lambda a, b: join(a, b, version=8), "no format version 8"),
        (lambda a, b: join(a, b, b), "of 3 levels, not of 2"),
        (lambda a, _: join(a), "of 1 levels, not of 2"),
        (lambda a, b: join(a, b) + b"\0", "bytes, not"),
        (lambda a, b: join(a, b)[:-1], "bytes, not"),
        (lambda a, b: join(a, b)[:9], "9 bytes are no key's state"),
        (lambda *_: b"\x09", "1 bytes are no key's state"),
    ],
)
def test_a_state_of_other_levels_or_cut_short_is_refused_by_name(spoil: Any, fault: str) -> None:
    parts = [make_fold(alpha=alpha, lifetime=10).step(KEY, b"", Elapsed(3))[0] for alpha in (0.1, 0.3)]
    assert set(make().read(join(*parts))) == {0.1, 0.3}
    with pytest.raises(SnapshotError, match=fault):
        make().read(spoil(*parts))


def test_levels_that_are_not_of_the_same_rounds_are_refused() -> None:
    """Kills: what only one of them has to say, dropped without a word."""
    low, high = (make_fold(alpha=alpha, lifetime=10) for alpha in (0.1, 0.3))
    asked, _ = low.step(KEY, b"", Asked("r", SCORES, 0))
    idle, _ = high.step(KEY, b"", Elapsed(0))
    other, _ = high.step(KEY, b"", Asked("s", SCORES, 0))
    for event in (Elapsed(10), Answered("r", label=0), Skipped("r")):
        for second in (idle, other):
            with pytest.raises(SnapshotError, match="levels of key 'anna' are not of the same rounds"):
                make().step(KEY, join(asked, second), event)
    two, _ = high.run(KEY, b"", [Asked("r", SCORES, 0), Asked("s", SCORES, 0)])
    with pytest.raises(SnapshotError, match="not of the same rounds"):
        make().step(KEY, join(asked, two), Elapsed(10))


def test_intervals_of_levels_begin_where_those_of_another_key_stand() -> None:
    fold: Any = make_fold(alpha=[0.1, 0.3], score=ScaledResiduals())
    state = b""
    for n in range(30):
        state, _ = fold.run(KEY, state, [Asked(str(n), 0.0), Answered(str(n), label=n % 7 - 3.0)])
    begun = fold.begin(state)
    assert [one.tally.answered for one in fold.read(begun).values()] == [0, 0]
    _, (first,) = fold.step("ben", begun, Asked("r", 1.0))
    _, (next_,) = fold.step(KEY, state, Asked("r", 1.0))
    assert first.number == 0
    assert [(one.lower, one.upper) for one in first.region.values()] == [
        (one.lower, one.upper) for one in next_.region.values()
    ]
