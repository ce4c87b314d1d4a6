"""Intervals and bands of many keys by the loop over all of them, and states that are damaged.

As in ``test_keyed_many.py`` the loop is played interpreted, and held against each event by itself.
"""

import math
from typing import Any

import numpy as np
import pytest

import keyhole
from keyhole.errors import KeyholeError
from keyhole.keyed import Answered, Asked, Elapsed, Event, Fold, Skipped, make_fold
from keyhole.keyed import state as states
from keyhole.scores import BoundedResiduals, QuantileBands
from tests.test_keyed_many import Found, by_the_loop, compare, find_played, stand, write

__all__ = ["by_the_loop"]  # the fixture that plays by the loop
SCORES: dict[str, Any] = {
    "residuals": keyhole.ScaledResiduals(),
    "residuals of a guessed scale": keyhole.ScaledResiduals(scale=2.0),
    "upper ends": keyhole.ScaledResiduals(side="upper"),
    "lower ends": keyhole.ScaledResiduals(side="lower", scale=0.5),
    "bounded residuals": BoundedResiduals(bound=2.0),
    "bands": QuantileBands(),
}
by_score = pytest.mark.parametrize("score", SCORES.values(), ids=SCORES.keys())


def make_output(rng: np.random.Generator, score: Any) -> Any:
    centre = float(rng.choice([0.0, 1.0, -2.5, 1e6])) if rng.random() < 0.3 else float(rng.normal())
    return (
        [centre - 1.0, centre + float(rng.random()) + 0.1]
        if isinstance(score, QuantileBands)
        else centre
    )


def draw(rng: np.random.Generator, score: Any, time: int) -> tuple[str, Event]:
    key, name, what = "abc"[rng.integers(3)], f"r{rng.integers(7)}", rng.random()
    at = time - int(rng.choice([0, 0, 0, 1, 9]))
    if what < 0.45:
        return key, Asked(name, make_output(rng, score), at)
    if what < 0.8:
        value = rng.choice([0.0, 1.0, -3.0, 50.0, rng.normal(), rng.normal(), rng.normal(0.0, 0.01)])
        return key, Answered(name, label=float(value), at=at)
    if what < 0.86:
        return key, Answered(name, keyhole.MISS, at=at)
    if what < 0.9:
        return key, Answered(name, keyhole.HIT, at=at)
    if what < 0.94:
        return key, Answered(name, score=float(rng.choice([0.0, 0.5, 1.0])), at=at)
    return (key, Skipped(name, at)) if what < 0.98 else (key, Elapsed(at))


@by_score
@pytest.mark.parametrize("seed", range(3))
def test_tables_of_intervals_come_to_what_each_event_by_itself_does(score: Any, seed: int) -> None:
    fold = make_fold(alpha=0.2, score=score, lifetime=12, open_limit=3, seed=1)
    rng, time, before, kinds = np.random.default_rng(seed), 0, dict[str, bytes](), set()
    for rows in (1, 30, 90, 60):
        found: Found = []
        for _ in range(rows):
            time += int(rng.integers(0, 2))
            found.append(draw(rng, score, time))
        kinds |= set(compare(fold, before, found).kind)
    assert {"shown", "counted", "expired"} <= kinds


@by_score
def test_a_key_of_intervals_answered_at_once_is_played_and_goes_on_where_it_was(score: Any) -> None:
    """In parts, so that every count of residuals is written and read until the scale is fixed."""
    fold, rng, before = make_fold(alpha=0.1, score=score), np.random.default_rng(4), dict[str, bytes]()
    for n in range(32):
        output = make_output(rng, score)
        centre = output[0] + 1.0 if isinstance(output, list) else output
        label = centre + float(rng.normal() * 10.0 ** int(rng.integers(-2, 2))) * (n % 5 > 0)
        found: Found = [("a", Asked(f"r{n}", output, n)), ("a", Asked(f"s{n}", output, n))]
        found += [("a", Answered(f"r{n}", label=label, at=n)), ("a", Skipped(f"s{n - 1}", n))]
        assert find_played(fold, before, write(found)) == "a"
        compare(fold, before, found)
    assert fold.read(before["a"]).tally.answered == 32


def test_a_key_whose_first_values_are_all_met_exactly_waits_for_its_scale() -> None:
    fold, before = make_fold(alpha=0.1, score=keyhole.ScaledResiduals()), dict[str, bytes]()
    for n, label in enumerate([1.0] * 27 + [3.0, 1.0]):
        compare(fold, before, [("a", Asked(f"r{n}", 1.0)), ("a", Answered(f"r{n}", label=label))])
        progress: Any = fold.read(before["a"])
        assert progress.scale.value == (0.0 if n < 27 else 2.0)


def test_a_first_value_that_is_met_exactly_leaves_the_scale_open() -> None:
    """The median of residuals that are 0 is none: then the largest counts, if that is more."""
    fold, before = make_fold(alpha=0.1, score=keyhole.ScaledResiduals()), dict[str, bytes]()
    for n, label in enumerate([1.0, 1.0, 1.0, 3.0, 1.0, 1.0, 2.0, 1.5, 1.0, 1.0]):
        compare(fold, before, [("a", Asked(f"r{n}", 1.0)), ("a", Answered(f"r{n}", label=label))])
        progress: Any = fold.read(before["a"])
        assert progress.scale.value == (0.0 if n < 3 else 2.0)
    found: Found = [("b", Asked("r", 1.0)), ("b", Answered("r", keyhole.MISS))]
    found += [("c", Asked("r", 1.0)), ("c", Answered("r", score=0.5))]
    found += [("d", Asked("r", 1.0)), ("d", Answered("r", label=1.5))]
    assert find_played(fold, {}, write(found)) == "d"  # Without a scale only a value tells something.
    compare(fold, {}, found)


@pytest.mark.parametrize("value", [-1.0, 1.0, 0.0, 2.0, 2.5, -2.0000000000000004, 7.0])
@by_score
def test_the_end_of_an_interval_is_in_it_and_what_is_beyond_every_one_is_out_of_reach(
    score: Any, value: float
) -> None:
    fold = make_fold(alpha=0.3, score=score)
    output: Any = [-1.0, 1.0] if isinstance(score, QuantileBands) else 0.0
    _, (shown,) = fold.step("a", b"", Asked("r", output))
    region: Any = shown.region
    ends = [end for end in (region.lower, region.upper) if math.isfinite(end)]
    beyond = [math.nextafter(end, side) for end in ends for side in (-math.inf, math.inf)]
    found: Found = []
    for n, label in enumerate([value, *ends, *beyond]):
        found += [(f"k{n}", Asked("r", output)), (f"k{n}", Answered("r", label=label))]
    before: dict[str, bytes] = {}
    outputs = compare(fold, before, found)
    assert outputs.kind.tolist() == ["shown", "counted"] * (1 + len(ends) + len(beyond))
    assert outputs.miss.tolist()[3 : 2 * len(ends) + 2 : 2] == [0.0] * len(ends)


@pytest.mark.parametrize(
    ("output", "played"),
    [
        ([0.0, 1.0], "ab"), ([0, 2], "ab"), (np.array([0.0, 1.0]), "ab"), (np.array([3, 1]), "ab"),
        (np.array([0.0, math.inf]), "a"), ([0.0, math.inf], ""), ([0, 2**53], "ab"),
        ([0, 2**53 + 2], ""),
        ([0, 10**400], ""),
        ([0.0, True], ""), ([0.0, "1"], ""), ([[0.0], [1.0]], ""), ([0.0, {"x": 0.5}], ""),
    ],
    ids=str,
)  # fmt: skip
def test_centres_that_are_numbers_are_played_and_others_are_refused(output: Any, played: str) -> None:
    fold = make_fold(alpha=0.1, score=keyhole.ScaledResiduals(scale=2.0))
    cells = output.tolist() if isinstance(output, np.ndarray) else output
    found: Found = [(key, Asked("r", cell)) for key, cell in zip("ab", cells, strict=True)]
    columns = {**write(found), "output": output}
    assert find_played(fold, {}, columns) == played
    compare(fold, {}, found, columns)


@pytest.mark.parametrize(
    ("band", "is_played"), [([1.0, 2.0], True), ([1.0, 1.0], False), ([2.0, 1.0], False)]
)
def test_a_band_goes_up(band: list[float], *, is_played: bool) -> None:
    fold = make_fold(alpha=0.1, score=QuantileBands())
    found: Found = [("a", Asked("r", band)), ("b", Asked("r", [0.0, 1.0]))]
    assert find_played(fold, {}, write(found)) == ("ab" if is_played else "b")
    compare(fold, {}, found)
    three: Found = [("a", Asked("r", [0.0, 1.0, 2.0]))]
    assert find_played(fold, {}, write(three)) == ""
    compare(fold, {}, three)


def test_true_values_that_are_none_are_refused() -> None:
    fold = make_fold(alpha=0.1, score=keyhole.ScaledResiduals(scale=2.0))
    found: Found = [(key, Asked("r", 0.0)) for key in "abcd"]
    found += [("a", Answered("r", label=1)), ("b", Answered("r", label=math.inf))]
    found += [("c", Answered("r", keyhole.MISS, label=0.5)), ("d", Answered("r", label=1.5))]
    columns = write(found)
    columns["label"] = np.array([math.nan if cell is None else cell for cell in columns["label"]])
    assert find_played(fold, {}, columns) == "ad"
    compare(fold, {}, found, columns)
    text: Found = [("a", Asked("r", 0.0)), ("a", Answered("r", label="x"))]
    assert find_played(fold, {}, write(text)) == ""
    compare(fold, {}, text)


@by_score
@pytest.mark.parametrize(
    "counts",
    [
        {"answered": 2**16}, {"answered": 2**16 - 1}, {"answered": 2**32},
        {"answered": 5, "unbounded": 1},
        {"answered": 5, "unreachable": 2, "unbounded": 3, "expired": 1}, {"answered": 9, "size": 0.5},
    ],
    ids=str,
)  # fmt: skip
def test_a_key_of_intervals_goes_on_from_any_counts(score: Any, counts: dict[str, Any]) -> None:
    fold = make_fold(alpha=0.1, score=score)
    output: Any = [-1.0, 1.0] if isinstance(score, QuantileBands) else 0.0
    before = {"a": stand(fold, wide=9, **counts)}
    found: Found = [
        ("a", Asked("r", output)),
        ("a", Answered("r", label=0.7)),
        ("a", Asked("s", output)),
    ]
    assert find_played(fold, before, write(found)) == "a"
    compare(fold, before, found)
    compare(fold, before, [("a", Answered("s", label=70.0))])


def make_state(fold: Fold, output: Any, label: Any, rounds: int) -> bytes:
    state = b""
    for n in range(rounds):
        state, _ = fold.run(
            "a", state, [Asked(f"q{n}", output, n), Answered(f"q{n}", label=label, at=n)]
        )
    state, _ = fold.run("a", state, [Asked("r1", output, 40), Asked("r2", output, 41)])
    return state


HOSTILE: dict[str, tuple[Fold, Any, Any]] = {
    "sets": (make_fold(alpha=0.1, lifetime=50), [0.6, 0.3, 0.1], 1),
    "residuals": (make_fold(alpha=0.1, lifetime=50, score=keyhole.ScaledResiduals()), 1.0, 2.5),
    "bounded": (make_fold(alpha=0.1, score=BoundedResiduals(bound=2.0)), 1.0, 2.5),
    "bands": (make_fold(alpha=0.1, score=QuantileBands()), [0.0, 1.0], 0.7),
}


@pytest.mark.parametrize("rounds", [0, 3, 30])
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_state_with_a_byte_changed_is_refused_or_played_as_it_is_alone(
    kind: str, rounds: int
) -> None:
    """Kills: a state that the loop plays though the fold would refuse it, and one played otherwise.

    Of an interval's round the size is written beside what it follows from: where a byte of these was
    changed, the two count it otherwise.
    """
    fold, output, label = HOSTILE[kind]
    state, rng = make_state(fold, output, label, rounds), np.random.default_rng(rounds)
    events: list[Event] = [
        Asked("r1", output, 42), Answered("r2", label=label, at=43), Asked("r3", output, 44),
        Elapsed(95),
    ]  # fmt: skip
    columns = write([("a", event) for event in events])
    places = [
        *range(10),
        *rng.integers(10, len(state), 60).tolist(),
        *range(len(state) - 75, len(state)),
    ]
    refused = 0
    for place in places:
        spoilt = bytearray(state)
        spoilt[place] ^= 1 << int(rng.integers(8))
        try:
            expected = fold.run("a", bytes(spoilt), events)
        except KeyholeError:
            expected = None
        try:
            after, outputs = fold.run_many({"a": bytes(spoilt)}, columns)
        except KeyholeError:
            assert expected is None, place
            refused += 1
            continue
        assert expected is not None, place
        assert kind != "sets" or after["a"] == expected[0], place
        assert outputs.kind.tolist() == [one.kind for one in expected[1]], place
    assert refused > 5


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_state_that_ends_anywhere_is_refused_as_it_is_alone(kind: str) -> None:
    fold, output, label = HOSTILE[kind]
    for rounds in (3, 30):
        state = make_state(fold, output, label, rounds)
        whole = states.unpack(state, fold.setup.learner)
        assert len(whole.waiting) == 2
        columns = write([("a", Asked("r3", output, 44))])
        assert find_played(fold, {"a": state}, columns) == "a"
        for end in range(1, len(state), 9):
            try:
                expected = fold.run("a", state[:end], [Asked("r3", output, 44)])[0]
            except KeyholeError:
                with pytest.raises(KeyholeError):
                    fold.run_many({"a": state[:end]}, columns)
            else:
                assert fold.run_many({"a": state[:end]}, columns)[0] == {"a": expected}


def test_a_bit_for_a_byte_that_a_learner_does_not_have_is_refused_as_it_is_alone() -> None:
    """The bits say which bytes of the learner's state follow; there is room for one more of them."""
    fold = make_fold(alpha=0.1, score=keyhole.ScaledResiduals())
    state, _ = fold.run("a", b"", [Asked("r", 1.0), Answered("r", label=2.5)])
    size = fold.setup.learner.layout.sizes[1]
    assert size % 8 > 0
    (bits,) = [at for at in range(len(state)) if is_squeezed_at(fold, state, at)]
    spoilt = bytearray(state)
    spoilt[bits + (size + 7) // 8 - 1] |= 1 << size % 8
    for content in (bytes(spoilt), bytes(spoilt) + b"\0"):
        with pytest.raises(KeyholeError):
            fold.run("a", content, [Elapsed(5)])
        with pytest.raises(KeyholeError):
            fold.run_many({"a": content}, write([("a", Elapsed(5))]))


def is_squeezed_at(fold: Fold, state: bytes, at: int) -> bool:
    """Return whether the learner's state of a key begins here, without its zeros."""
    learner = fold.setup.learner
    packed = states._squeeze(learner.layout.pack_narrow(fold.read(state).state))
    return state.startswith(packed, at)


def test_an_open_round_of_no_scores_is_shown_again_as_it_is_alone() -> None:
    fold = make_fold(alpha=0.1)
    state, _ = fold.step("a", b"", Asked("r", [0.7]))
    at = len(state) - states.ROUND_SIZE - 1 - 8 - 8  # its id, its memo, its score
    length = int.from_bytes(state[at : at + 4], "little")
    spoilt = state[:at] + (length - 8).to_bytes(4, "little") + state[at + 4 : at + 6]
    spoilt += bytes(4) + state[at + 10 : -8]
    compare(fold, {"a": spoilt}, [("a", Asked("r", [0.7]))])
