"""Snapshots and states that somebody forged are refused with a sentence, whatever they hold."""

import json
import random
from typing import Any

import pytest

import keyhole
from keyhole.errors import KeyholeError
from keyhole.keyed import Answered, Asked, make_fold
from keyhole.predictor import file

VALUES: list[Any] = [
    None,
    -1,
    0,
    2**70,
    1e308,
    float("nan"),
    "",
    "x",
    "ff",
    [],
    {},
    [[]],
    {"name": "x"},
    True,
]


def spoil(value: Any, rng: random.Random) -> Any:
    """Return a JSON value with one thing in it changed."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(sorted(value))
        return {**value, name: spoil(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        return [*value[:place], spoil(value[place], rng), *value[place + 1 :]]
    return rng.choice(VALUES)


def make_predictors() -> list[Any]:
    made: list[Any] = []
    for learner in ("informed-tracker", "logit-tracker", "kt", "aci"):
        predictor = keyhole.Predictor(alpha=0.1, learner=learner, seed=1, feedback="full")
        for _ in range(3):
            predictor.learn(predictor.predict({"cat": 0.7, "dog": 0.2}), label="cat")
        predictor.predict({"cat": 0.7, "dog": 0.2})
        made.append(predictor)
    gate = keyhole.Gate(alpha=0.1, groups=["new"], seed=1)
    gate.decide(0.99, groups=["new"])
    return [*made, gate]


@pytest.mark.parametrize("number", range(5))
def test_a_forged_snapshot_is_refused_or_works(number: int) -> None:
    whole, rng = make_predictors()[number], random.Random(number)  # noqa: S311
    header, content = file.unpack(whole.dump())
    refused = 0
    for _ in range(150):
        forged, spoilt = spoil(header, rng), bytearray(content)
        if rng.random() < 0.5:
            spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
        try:
            type(whole).restore(file.pack(forged, bytes(spoilt)))
        except KeyholeError:
            refused += 1
    assert refused > 30


@pytest.mark.parametrize("header", [b"\xff", b"[1", b"[" * 100_000, b"null", b"[]", b"{}", b"1"])
def test_a_head_that_is_no_object_is_refused(header: bytes) -> None:
    body = header + b"\n"
    content = file.pack({}, b"").split(b"\n", 1)[0] + b"\n" + file._digest(body) + body
    with pytest.raises(KeyholeError, match="snapshot"):
        keyhole.Predictor.restore(content)


def test_a_forged_state_of_a_key_is_refused_or_works() -> None:
    rng, fold = random.Random(3), make_fold(alpha=0.1, seed=1, feedback="full")  # noqa: S311
    state = b""
    for n in range(3):
        state, _ = fold.step("k", state, Asked(f"é{n}", {"größer": 0.7, "dog": 0.2}, at=n))
    state, _ = fold.step("k", state, Answered("é0", label="größer", at=3))
    refused = 0
    for _ in range(1_500):
        spoilt = bytearray(state)
        for _ in range(rng.randrange(1, 4)):
            spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
        try:
            fold.run(
                "k",
                bytes(spoilt),
                [
                    Asked("é1", {"a": 0.5}, at=5),
                    Answered("é2", label="dog", at=6),
                    Asked("z", [0.5], at=10**6),
                ],
            )
            json.dumps(fold.next_due(bytes(spoilt)))
        except KeyholeError:
            refused += 1
    assert refused > 100
