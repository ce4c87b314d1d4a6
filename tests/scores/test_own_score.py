"""A score of one's own: as good as Keyhole's once it is registered, refused with the reason before."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import keyhole
from keyhole import HIT, Predictor
from keyhole.errors import BoundWarning, LabelError, ScoreError
from keyhole.keyed import Answered, Asked, make_fold
from keyhole.scores import SCORES, BoundedResiduals, CustomIntervals, CustomScores, add_labels
from tests.scores import own
from tests.scores.own import Excess, Halves, Spread

USE = """
import keyhole
predictor = keyhole.Predictor.load("saved")
print(predictor.learn(0, label=12.0), keyhole.scores.SCORES["excess"].__module__)
"""


@pytest.fixture
def registered() -> Iterator[None]:
    assert keyhole.register(Excess) is Excess
    yield
    del SCORES._known["excess"]


def test_a_scale_is_found_for_a_score_that_says_so() -> None:
    """As for Keyhole's own score of scaled residuals, whose formula this is."""
    own: Predictor[Any] = Predictor(alpha=0.1, score=Spread())
    ours: Predictor[Any] = Predictor(alpha=0.1, score=keyhole.ScaledResiduals())
    for value in (12.0, 9.0, 11.5, 30.0, 8.0, 10.5):
        shown, expected = own.predict(10.0), ours.predict(10.0)
        assert shown == expected
        own.learn(shown, label=value)
        ours.learn(expected, label=value)
    assert shown.size < float("inf")


class Warned(Excess):
    """A score that has something to say of what is out of reach."""

    out_of_reach: ClassVar[str] = "the true value leaves no room; make more of it"


def test_a_score_says_what_to_warn_of_where_no_threshold_reaches() -> None:
    predictor: Predictor[Any] = Predictor(alpha=0.1, score=Warned())
    shown = predictor.predict(10.0)
    with pytest.warns(BoundWarning, match="leaves no room; make more of it"):
        predictor.learn(shown, label=99.0)


def test_labels_are_added_to_a_score_that_fixes_them() -> None:
    assert add_labels(Halves(), ["c"]) == Halves(("a", "b", "c"))
    with pytest.raises(LabelError, match="has no labels of its own"):
        add_labels(Excess(), ["c"])


FUNCTIONS: list[Any] = [
    CustomIntervals(lambda _centre, _value: 1.0, lambda centre, _threshold: (centre, centre)),
    CustomScores(lambda _output, _label: 0.5, ["a"]),
]


@pytest.mark.usefixtures("registered")
def test_a_registered_score_is_saved_and_loaded(tmp_path: Path) -> None:
    predictor: Predictor[Any] = Predictor(alpha=0.1, score=Excess(room=20.0), seed=1)
    shown = predictor.predict(10.0)
    predictor.save(tmp_path / "saved")
    loaded: Predictor[Any] = Predictor.load(tmp_path / "saved")
    assert loaded.setup.score == Excess(room=20.0)
    for one in (predictor, loaded, pickle.loads(pickle.dumps(predictor))):  # noqa: S301
        if one is not predictor:
            one.learn(shown, label=12.0)
            assert one.rounds == 1


@pytest.mark.usefixtures("registered")
def test_a_registered_score_is_played_by_the_fold_from_bytes_alone() -> None:
    state, outputs = make_fold(alpha=0.1, score=Excess()).step("anna", b"", Asked("r1", 10.0))
    shown: Any = outputs[0].region
    assert (shown.lower, 12.0 in shown) == (float("-inf"), True)
    _, outputs = make_fold(alpha=0.1, score=Excess()).step("anna", state, Answered("r1", label=12.0))
    assert (outputs[0].kind.value, outputs[0].miss) == ("counted", 0.0)


def test_an_unregistered_score_is_saved_and_loaded_with_it_alone(tmp_path: Path) -> None:
    predictor: Predictor[Any] = Predictor(alpha=0.1, score=Excess())
    shown = predictor.predict(10.0)
    predictor.save(tmp_path / "saved")
    with pytest.raises(ScoreError, match=r"no score 'excess' is registered; .*score=\.\.\."):
        Predictor.load(tmp_path / "saved")
    loaded: Predictor[Any] = Predictor.load(tmp_path / "saved", score=Excess())
    loaded.learn(shown, HIT)
    assert loaded.rounds == 1


def test_a_fold_refuses_an_unregistered_score_when_it_is_made() -> None:
    with pytest.raises(ScoreError, match=r"not a registered score.*keyhole\.register\(Excess\)"):
        make_fold(alpha=0.1, score=Excess())


@pytest.mark.parametrize("score", FUNCTIONS, ids=["intervals", "scores"])
def test_a_fold_refuses_functions_when_it_is_made(score: Any) -> None:
    with pytest.raises(ScoreError, match=r"holds a function, function, .* write the score as a class"):
        make_fold(alpha=0.1, score=score)


@pytest.mark.parametrize("score", FUNCTIONS, ids=["intervals", "scores"])
def test_functions_are_given_again_when_a_predictor_is_loaded(score: Any, tmp_path: Path) -> None:
    predictor: Predictor[Any] = Predictor(alpha=0.1, score=score)
    shown = predictor.predict(3.0)
    predictor.save(tmp_path / "saved")
    with pytest.raises(ScoreError, match="a function cannot be saved; give it again"):
        Predictor.load(tmp_path / "saved")
    loaded: Predictor[Any] = Predictor.load(tmp_path / "saved", score=score)
    loaded.learn(shown, HIT)
    assert loaded.rounds == 1


def test_labels_that_cannot_be_saved_are_refused_by_the_fold_and_taken_in_memory() -> None:
    score = keyhole.Probabilities(labels=[frozenset("ab"), frozenset("cd")])
    predictor: Predictor[Any] = Predictor(alpha=0.1, score=score)
    predictor.learn(predictor.predict([0.7, 0.3]), label=frozenset("ab"))
    with pytest.raises(ScoreError, match="probabilities cannot be saved: label frozenset"):
        make_fold(alpha=0.1, score=score)


class Plain:
    """A score that is no dataclass."""

    name, kind = "plain", "interval"
    read = unpack = Excess.read


@dataclass(frozen=True)
class Half:
    """A score that no file can keep."""

    def read(self, output: Any) -> Any:
        return BoundedResiduals(bound=1.0).read(output)


@dataclass(frozen=True)
class Odd(Half):
    """A score of no kind that there is."""

    name: ClassVar[str] = "odd"
    kind: ClassVar[Any] = "circle"
    unpack = Excess.unpack


@dataclass(frozen=True)
class Taken(Excess):
    """A score under another's name."""

    name: ClassVar[str] = "probabilities"


@pytest.mark.parametrize(
    ("score", "fault"),
    [
        (Half, "score Half has no name; a score is a dataclass with name, kind, read, unpack"),
        (Odd, "kind 'circle' of score Odd is none of labels, interval, band, gate"),
        (Plain, "score Plain is not a dataclass, whose fields can be saved"),
    ],
)
def test_what_is_no_whole_score_is_refused_when_the_predictor_is_made(score: Any, fault: str) -> None:
    with pytest.raises(ScoreError, match=fault):
        Predictor(alpha=0.1, score=score())
    with pytest.raises(ScoreError, match=fault):
        keyhole.register(score)


def test_what_cannot_be_in_the_table_is_refused() -> None:
    before = [*SCORES]
    with pytest.raises(ScoreError, match="there is a score 'probabilities' already"):
        keyhole.register(Taken)
    with pytest.raises(ScoreError, match="is not a class; register the class of the score"):
        keyhole.scores.register(Excess())  # type: ignore[arg-type]
    assert [*SCORES] == before
    assert before[:5] == [
        "probabilities", "scaled residuals", "bounded residuals", "quantile bands", "best score",
    ]  # fmt: skip


def test_a_score_of_an_installed_package_is_known_by_its_entry_point(tmp_path: Path) -> None:
    about = tmp_path / "excess_score-1.0.dist-info"
    about.mkdir()
    (tmp_path / "excess_score.py").write_text(Path(own.__file__).read_text())
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: excess-score\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[keyhole.scores]\nexcess = excess_score:Excess\n")
    predictor: Predictor[Any] = Predictor(alpha=0.1, score=Excess())
    predictor.predict(10.0)
    predictor.save(tmp_path / "saved")
    paths = os.pathsep.join(path for path in (str(tmp_path), *sys.path) if path)
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", USE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "None excess_score\n", done.stderr
