"""One key of many, beside a predictor alone with a clock: every output and every limit."""

import copy
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest

import keyhole
from keyhole.errors import InvalidError
from keyhole.keyed import Answered, Asked, Elapsed, Event, Fold, Skipped, make_fold

LIFETIME, LIMIT, RECALL = 20, 4, 2


class Plain:
    """A key as its page describes it: open rounds by id, with their times, and the last ids closed."""

    def __init__(self, fold: Fold, key: str) -> None:
        self.predictor: Any = keyhole.Predictor(alpha=0.2, seed=fold.seed_of(key), open_limit=10**6)
        self.clock: int | None = None
        self.open: dict[str, tuple[int, Any]] = {}
        self.closed: list[str] = []

    def step(self, event: Event) -> list[tuple[Any, ...]]:
        self.clock = event.at if self.clock is None else self.clock
        if isinstance(event, Asked):
            return self.ask(event)
        said = self.advance(event.at)
        if isinstance(event, Elapsed):
            return said
        if event.id not in self.open:
            return [*said, self.refuse(event.id)]
        _, shown = self.open[event.id]
        if isinstance(event, Skipped):
            self.close(event.id)
            self.predictor.skip(shown)
            return [*said, ("skipped", event.id, shown.id, None, None)]
        assert isinstance(event, Answered)
        self.predictor.learn(shown, label=event.label)
        self.close(event.id)
        return [*said, ("counted", event.id, shown.id, None, float(event.label not in shown))]

    def ask(self, event: Asked) -> list[tuple[Any, ...]]:
        if event.id in self.open:
            _, shown = self.open[event.id]
            return [("repeated", event.id, shown.id, shown, None)]
        if event.id in self.closed:
            return [self.refuse(event.id)]
        if event.at + LIFETIME <= (self.clock or 0):
            return [("refused", event.id, None, None, None)]
        said = self.advance(event.at)
        shown = self.predictor.predict(event.output)
        self.open[event.id] = event.at + LIFETIME, shown
        said.append(("shown", event.id, shown.id, shown, None))
        if len(self.open) > LIMIT:
            said.append(self.expire(next(iter(self.open))))
        return said

    def advance(self, at: int) -> list[tuple[Any, ...]]:
        self.clock = max(self.clock or 0, at)
        return [self.expire(name) for name, (due, _) in list(self.open.items()) if due <= self.clock]

    def expire(self, name: str) -> tuple[Any, ...]:
        shown = self.open[name][1]
        self.predictor.skip(shown)
        self.close(name)
        return "expired", name, shown.id, None, None

    def close(self, name: str) -> None:
        del self.open[name]
        self.closed = [*self.closed, name][-RECALL:]

    def refuse(self, name: str) -> tuple[Any, ...]:
        return "repeated" if name in self.closed else "refused", name, None, None, None


def draw_events(rng: np.random.Generator, count: int) -> list[Event]:
    time, events = 100, list[Event]()
    for _ in range(count):
        time += int(rng.integers(0, 6))
        name, at = f"r{rng.integers(25)}", time - int(rng.integers(0, 30)) * int(rng.random() < 0.1)
        what = rng.random()
        if what < 0.5:
            events.append(Asked(name, rng.dirichlet(np.ones(3)).tolist(), at=at))
        elif what < 0.85:
            events.append(Answered(name, label=int(rng.integers(3)), at=at))
        else:
            events.append(Skipped(name, at) if what < 0.95 else Elapsed(at))
    return events


@pytest.mark.parametrize("warm", [True, False], ids=["kept in memory", "from its bytes"])
def test_a_key_is_a_predictor_with_a_clock(*, warm: bool) -> None:
    """Kills: a round that expires, is dropped, found or remembered otherwise than its page says."""
    fold = make_fold(alpha=0.2, lifetime=LIFETIME, open_limit=LIMIT, recall=RECALL, seed=5)
    plain, state, kinds = Plain(fold, "anna"), b"", set()
    for event in draw_events(np.random.default_rng(1), 600):
        used = fold if warm else copy.copy(fold)  # which has read nothing
        state, outputs = used.step("anna", state, event)
        found = [(one.kind.value, one.id, one.number, one.region, one.miss) for one in outputs]
        assert found == plain.step(event)
        kinds |= {kind for kind, *_ in found}
        due = [time for time, _ in plain.open.values()]
        assert used.next_due(state) == min(due, default=None)
    assert kinds == {"shown", "counted", "skipped", "expired", "repeated", "refused"}
    found_tally, tally = fold.read(state).tally, plain.predictor.progress.tally
    assert (found_tally.answered, found_tally.misses) == (tally.answered, tally.misses)
    assert (found_tally.size, found_tally.expired) == (tally.size, tally.skipped)
    assert found_tally.predicted == tally.predicted


def test_the_draws_of_a_key_come_from_the_seed_and_its_name() -> None:
    fold = make_fold(alpha=0.1, seed=7)
    digest = blake2b(b"anna", key=(7).to_bytes(8, "big"), digest_size=8).digest()
    assert fold.seed_of("anna") == int.from_bytes(digest, "big")


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        ({"lifetime": 1}, True),
        ({"lifetime": 0}, False),
        ({"lifetime": 2**47 - 1}, True),
        ({"lifetime": 2**47}, False),
        ({"lifetime": 1.5}, False),
        ({"recall": 0}, True),
        ({"recall": 31}, True),
        ({"recall": 32}, False),
        ({"recall": -1}, False),
    ],
)
def test_a_lifetime_and_how_many_rounds_are_remembered_have_limits(
    options: dict[str, Any], *, fits: bool
) -> None:
    if fits:
        make_fold(alpha=0.1, **options)
        return
    with pytest.raises(InvalidError, match="is not a whole number from"):
        make_fold(alpha=0.1, **options)


def test_a_hundred_rounds_wait_and_two_are_remembered_unless_told() -> None:
    fold = make_fold(alpha=0.1)
    asks = [Asked(f"r{n}", [0.6, 0.4]) for n in range(101)]
    state, outputs = fold.run("a", b"", asks)
    assert [one.id for one in outputs if one.kind == "expired"] == ["r0"]
    state, _ = fold.run("a", state, [Answered("r1", label=0), Answered("r2", label=0)])
    for name, kind in (("r0", "refused"), ("r1", "repeated"), ("r2", "repeated")):
        _, (again,) = fold.run("a", state, [Answered(name, label=0)])
        assert again.kind == kind


@pytest.mark.parametrize(
    ("name", "at", "fits"),
    [
        ("x" * 65_535, 0, True),
        ("x" * 65_536, 0, False),
        ("ü" * 32_767, 0, True),
        ("ü" * 32_768, 0, False),
        ("x", 2**47 - 1, True),
        ("x", 2**47, False),
        ("x", -(2**47 - 1), True),
        ("x", -(2**47), False),
        ("\ud800", 0, False),
        (7, 0, False),
    ],
)
def test_ids_and_times_have_limits(name: Any, at: int, *, fits: bool) -> None:
    fold = make_fold(alpha=0.1)
    state, (one,) = fold.step("a", b"", Asked(name, [0.6, 0.4], at=at))
    assert one.kind == ("shown" if fits else "refused")
    if fits:
        assert one.id == name
        _, (again,) = make_fold(alpha=0.1).step("a", state, Answered(name, label=0, at=at))
        assert again.kind == "counted"
    else:
        assert state == b""
