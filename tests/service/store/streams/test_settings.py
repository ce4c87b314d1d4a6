"""What a stream can be made with."""

from typing import Any

import pytest

from keyhole import Probabilities, QuantileBands, ScaledResiduals
from keyhole.errors import InvalidError, SnapshotError
from keyhole.scores import BestScore, BoundedResiduals
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import registry
from keyhole.service.store.streams.settings import (
    check_limits,
    check_name,
    dump_setup,
    load_setup,
    make_setup,
)

NOW = 1_800_000_000.0
TEN_YEARS = 3650 * 86_400.0


@pytest.mark.parametrize(
    ("lifetime", "window"), [(1.0, 20), (TEN_YEARS, 10**5), (86_400.0, 1_000)], ids=str
)
def test_lifetimes_from_a_second_to_ten_years_and_windows_from_20_to_100000_are_taken(
    lifetime: float, window: int
) -> None:
    check_limits(lifetime=lifetime, window=window)


@pytest.mark.parametrize(
    ("lifetime", "window", "fault"),
    [
        (0.99, 20, "lifetime 0.99 is not from a second to ten years"),
        (TEN_YEARS + 1.0, 20, "lifetime"),
        (float("nan"), 20, "lifetime"),
        (1.0, 19, "window 19 is not from 20 to 100000"),
        (1.0, 10**5 + 1, "window 100001"),
    ],
)
def test_other_limits_are_named(lifetime: float, window: int, fault: str) -> None:
    with pytest.raises(InvalidError, match=f"^{fault}"):
        check_limits(lifetime=lifetime, window=window)


@pytest.mark.parametrize("name", ["a", "7", "a.b-c_d", "A" * 64])
def test_a_name_is_up_to_64_letters_digits_dots_dashes_and_underscores(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "A" * 65, ".a", "-a", "_a", "a b", "a/b", "ä", "a\n"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidError, match="cannot name a stream"):
        check_name(name)


def test_a_stream_waits_a_week_and_looks_at_a_thousand_rounds_unless_told(light: Database) -> None:
    setup, _ = make_setup(alpha=0.1)
    stream = registry.create(light, "pets", setup=setup, now=NOW)
    assert (stream.lifetime, stream.window) == (7 * 86_400.0, 1_000)
    assert setup.open_limit == 10_000


@pytest.mark.parametrize(
    ("given", "score"),
    [
        ({}, Probabilities()),
        ({"labels": ["a", "b"], "power": 0.5}, Probabilities(labels=["a", "b"], power=0.5)),
        ({"at_least": 1, "at_most": 3}, Probabilities(at_least=1, at_most=3)),
        ({"kind": "interval"}, ScaledResiduals()),
        ({"scale": 2.0}, ScaledResiduals(scale=2.0)),
        ({"side": "upper"}, ScaledResiduals(side="upper")),
        ({"bound": 3.0}, BoundedResiduals(bound=3.0)),
        ({"kind": "band"}, QuantileBands()),
        ({"kind": "gate"}, BestScore()),
    ],
)
def test_what_is_given_says_how_outputs_are_read(given: dict[str, Any], score: Any) -> None:
    setup, warned = make_setup(alpha=0.1, **given)
    assert setup.score == score
    assert warned == []


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"kind": "labels", "scale": 2.0}, "scale is for streams of kind 'interval'"),
        ({"kind": "interval", "power": 2.0}, "power is for streams of kind 'labels'"),
        ({"labels": ["a"], "side": "upper"}, "labels is for streams of kind 'labels'"),
        ({"kind": "gate", "at_most": 2}, "at_most is for streams of kind 'labels'"),
        ({"bound": 3.0, "scale": 2.0}, "bound and scale exclude each other"),
        ({"bound": 3.0, "side": "upper"}, "bound and side exclude each other"),
    ],
)
def test_what_does_not_go_together_is_named(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidError, match=fault):
        make_setup(alpha=0.1, **given)


def test_what_the_library_warns_of_is_returned() -> None:
    _, warned = make_setup("ocp-bandit", alpha=0.1, horizon=2_000, arms=3)
    assert warned == ["3 arms work, but the theorem begins at 5"]


@pytest.mark.parametrize("given", [{}, {"labels": ['"seed": 9', "b"]}, {"kind": "gate"}])
@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_a_setup_is_read_as_it_was_written_also_where_its_labels_speak_of_seeds(
    seed: int, given: dict[str, Any]
) -> None:
    setup, _ = make_setup(alpha=0.1, seed=seed, **given)
    read = load_setup(dump_setup(setup), str(seed))
    assert read == setup
    assert read.seed == seed


def test_streams_that_are_alike_but_for_their_seeds_share_what_is_alike() -> None:
    """Kills: a learner of its own, checked and prepared anew, for each of ten thousand streams."""
    texts = [dump_setup(make_setup(alpha=0.1, labels=["a", "b"], seed=seed)[0]) for seed in (7, 8)]
    assert texts[0] == texts[1]
    first, second = (load_setup(texts[0], seed) for seed in ("7", "8"))
    assert (first.seed, second.seed) == (7, 8)
    assert first.score is second.score
    assert load_setup(texts[0], "7") is first


def test_a_setup_whose_seed_is_none_is_refused() -> None:
    text = dump_setup(make_setup(alpha=0.1, seed=7)[0])
    with pytest.raises((SnapshotError, InvalidError)):
        load_setup(text, str(2**64))
