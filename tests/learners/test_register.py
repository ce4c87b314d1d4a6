"""A rule of one's own: by ``register``, or by the entry point of a package."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from keyhole import HIT, LEARNERS, MISS, Predictor, make, register, simulate
from keyhole.errors import InvalidError, SpeedWarning
from keyhole.feedback import Needs
from keyhole.learners import About, Learner, Rule, safety_valve
from keyhole.numeric import can_compile

SCORES = np.random.default_rng(5).beta(6, 2, 1_500)
MODULE = '''
"""Falls by a step after a miss and rises after a hit, and counts both."""

from typing import NamedTuple

import numpy as np

import keyhole
from keyhole.feedback import Needs
from keyhole.learners.parameters import parameters, positive, target


@parameters
class PlainParameters:
    alpha: float = target()
    step: float = positive("How far a miss lowers the threshold.", default=0.05)


class PlainState(NamedTuple):
    threshold: np.ndarray = np.full(1, 0.5)
    counts: np.ndarray = np.zeros(2, dtype=np.int64)


@keyhole.kernel
def choose(settings, state, memo, ask):
    return max(0.0, state.threshold[0])


@keyhole.kernel
def observe(settings, state, memo, answer):
    state.threshold[0] -= settings.step * (answer.miss - settings.alpha)
    state.counts[1 if answer.miss > 0.0 else 0] += 1


plain = keyhole.learners.Rule(
    name="plain",
    needs=Needs.HIT_OR_MISS,
    parameters=PlainParameters,
    state=PlainState,
    choose=choose,
    observe=observe,
    about=keyhole.learners.About(
        summary="a step down, a small step up",
        guarantee="nothing",
        source="a package of one's own",
    ),
)
'''
STUBBORN = {  # Numba knows no JSON, and raises an error of Python's own at the text of a float.
    "json": MODULE.replace(
        "state.threshold[0])\n", "json.loads(json.dumps(state.threshold[0])))\n"
    ).replace("import numpy", "import json\n\nimport numpy"),
    "text": MODULE.replace("state.threshold[0])\n", "float(str(state.threshold[0])))\n"),
}
USE = """
import sys
from pathlib import Path
import numpy as np
import keyhole

assert "plain" in keyhole.LEARNERS and "plain" in list(keyhole.LEARNERS)
scores = np.random.default_rng(5).beta(6, 2, 1_500)
path = Path(sys.argv[1]) / "predictor"
predictor = keyhole.Predictor("plain", alpha=0.1, seed=1, feedback="bandit")
played = []
for n, score in enumerate(scores):
    if n == 700:
        predictor.save(path)
        predictor = keyhole.Predictor.load(path)
    shown = predictor.predict([score])
    played.append(shown.threshold)
    predictor.learn(shown, keyhole.HIT if score >= shown.threshold else keyhole.MISS)
run = keyhole.simulate(keyhole.make("plain", alpha=0.1), scores, seed=1, feedback="bandit")
assert (run.thresholds[0] == played).all()
print(predictor.learner)
"""


def load(folder: Path, name: str, text: str) -> Any:
    (folder / f"{name}.py").write_text(text)
    return import_module(name)


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator["Rule[...]"]:
    """A rule of one's own, in the table until the end of the test."""
    monkeypatch.syspath_prepend(tmp_path)
    rule = register(load(tmp_path, "plain_rule", MODULE).plain)
    yield rule
    del LEARNERS._known["plain"]
    del sys.modules["plain_rule"]


def test_registered_rule_is_in_the_table_and_made_by_name(plain: "Rule[...]") -> None:
    assert LEARNERS["plain"] is plain
    assert "plain" in list(LEARNERS)
    assert make("plain", alpha=0.2, options={"step": 0.1}) == plain(alpha=0.2, step=0.1)
    assert register(plain) is plain  # Twice is as good as once.
    with pytest.raises(InvalidError, match=r"step 0 is not positive and finite; try 0\.05"):
        make("plain", alpha=0.2, options={"step": 0})


def test_registered_rule_plays_alike_in_a_predictor_and_in_a_run(plain: "Rule[...]") -> None:
    learner = plain(alpha=0.1)
    predictor: Predictor[Any] = Predictor(learner, seed=1, feedback="bandit")
    played = []
    for score in SCORES:
        shown = predictor.predict([score])
        played.append(shown.threshold)
        predictor.learn(shown, HIT if score >= shown.threshold else MISS)
    run = simulate(learner, SCORES, seed=1, feedback="bandit")
    assert (run.thresholds[0] == played).all()
    misses = int(run.misses.sum())
    assert predictor._progress.state.counts.tolist() == [SCORES.size - misses, misses]


def test_registered_rule_is_saved_and_loaded(plain: "Rule[...]", tmp_path: Path) -> None:
    original: Predictor[Any] = Predictor("plain", alpha=0.1, seed=1)
    for score in SCORES[:300]:
        original.learn(original.predict([score]), score=score)
    original.save(tmp_path / "predictor")
    loaded: Predictor[Any] = Predictor.load(tmp_path / "predictor")
    assert loaded.dump() == original.dump()
    assert loaded.learner == plain(alpha=0.1)


def test_registered_rule_gets_a_valve(plain: "Rule[...]") -> None:
    learner = make("plain+valve", alpha=0.1)
    assert learner == safety_valve(plain(alpha=0.1))
    run = simulate(learner, np.zeros(400), feedback="bandit")
    excess = np.cumsum(run.misses[0] - 0.1)
    assert (excess <= np.sqrt(np.arange(1, 401)) + 0.9 + 1e-9).all()


def test_snapshot_of_a_rule_that_is_not_there_names_it(plain: "Rule[...]", tmp_path: Path) -> None:
    Predictor(plain(alpha=0.1), seed=1).save(tmp_path / "predictor")
    del LEARNERS._known["plain"]
    try:
        with pytest.raises(InvalidError, match="no learner 'plain'"):
            Predictor.load(tmp_path / "predictor")
    finally:
        LEARNERS._known["plain"] = plain


@pytest.fixture(params=STUBBORN)
def stubborn(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Learner:
    """A learner whose rule numba cannot compile."""
    if not can_compile():
        pytest.skip("there is no compiled lane")
    monkeypatch.syspath_prepend(tmp_path)
    made: Learner = load(tmp_path, f"stubborn_{request.param}", STUBBORN[request.param]).plain(
        alpha=0.1
    )
    return made


def choose_often(learner: Learner) -> float:
    """Choose more often than is interpreted anyway, and return the last threshold."""
    return [learner.choose(learner.start())[0] for _ in range(60)][-1]


def test_rule_that_cannot_be_compiled_runs_interpreted_and_says_so(stubborn: Learner) -> None:
    with pytest.warns(SpeedWarning, match="plain runs interpreted: numba cannot compile it") as said:
        assert choose_often(stubborn) == 0.5
    predictor: Predictor[Any] = Predictor(stubborn, seed=1)  # It is said once.
    predictor.learn(predictor.predict([0.7]), score=0.7)
    assert predictor.rounds == 1
    assert said[0].filename == __file__  # the line that asked, not one of ours


def test_the_cause_why_it_cannot_be_compiled_is_one_line_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_compile():
        pytest.skip("there is no compiled lane")
    monkeypatch.syspath_prepend(tmp_path)
    learner = load(tmp_path, "stubborn_told", STUBBORN["json"]).plain(alpha=0.1)
    with pytest.warns(SpeedWarning) as said:
        choose_often(learner)
    (told,) = str(said[0].message).splitlines()
    assert "Unknown attribute 'loads' of type Module(<module 'json'" in told
    assert told.endswith("(stubborn_told.py, line 28)")
    assert "nopython" not in told


def test_rule_that_cannot_be_compiled_is_simulated_interpreted(stubborn: Learner) -> None:
    with pytest.warns(SpeedWarning, match="plain runs interpreted") as said:
        run = simulate(stubborn, SCORES[:200])
    assert said[0].filename == __file__
    assert run.thresholds[0, 0] == 0.5


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ("kt", "'kt' is not a rule; make one with keyhole.learners.Rule"),
        ({"name": "kt"}, "there is a learner 'kt' already; choose another name"),
        ({"name": "mine+valve"}, "'mine\\+valve' cannot name a learner"),
        ({"name": ""}, "'' cannot name a learner"),
    ],
)
def test_what_cannot_be_in_the_table_is_refused(plain: "Rule[...]", given: Any, match: str) -> None:
    from dataclasses import replace

    rule = replace(plain, **given) if isinstance(given, dict) else given
    with pytest.raises(InvalidError, match=match):
        register(rule)
    assert "mine+valve" not in LEARNERS


@pytest.fixture
def package(tmp_path: Path) -> dict[str, str]:
    """An environment in which a package with an entry point is installed."""
    home = tmp_path / "site"
    about = home / "plain_rule-1.0.dist-info"
    about.mkdir(parents=True)
    (home / "plain_rule.py").write_text(MODULE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plain-rule\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[keyhole.learners]\nplain = plain_rule:plain\n")
    paths = [str(home), *sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def run(arguments: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(  # noqa: S603
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_rule_of_an_installed_package_runs_everywhere(package: dict[str, str], tmp_path: Path) -> None:
    assert run(["-c", USE, str(tmp_path)], package) == "<plain: alpha=0.1, step=0.05>\n"


def test_rule_of_an_installed_package_is_listed_by_the_command_line(package: dict[str, str]) -> None:
    listed = run(["-m", "keyhole", "learners"], package)
    assert "plain              needs hit or miss" in listed
    assert "takes alpha, step=0.05" in listed


def test_rule_of_an_installed_package_appears_on_the_board(
    package: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "board"
    asked = ["--entrants", "plain", "--scenarios", "airfoil", "--out", str(out)]
    printed = run(["-m", "keyhole", "bench", "--quick", *asked], package)
    assert "\nplain" in printed
    assert "<td>plain</td>" in (out / "board.html").read_text()
    assert '"entrant": "plain"' in (out / "board.json").read_text()


def test_a_first_round_does_not_ask_the_packages(package: dict[str, str]) -> None:
    """To look through all that is installed takes longer than the round."""
    code = "import keyhole; keyhole.Predictor(alpha=0.1); print(keyhole.LEARNERS._asked_packages)"
    assert run(["-c", code], package) == "False\n"


def make_rule(**changed: Any) -> Rule[...]:
    """A rule that plays one threshold, with something about it changed."""
    kt = LEARNERS["kt"]
    given: dict[str, Any] = {
        "name": "still", "needs": "hit or miss", "parameters": kt.parameters, "state": StillState,
        "choose": lambda _settings, state, _memo, _ask: state.threshold[0],
        "observe": lambda _settings, _state, _memo, _answer: None,
        "about": About(summary="it plays one threshold", guarantee="nothing", source="nobody"),
    }  # fmt: skip
    return Rule(**given | changed)


class StillState(NamedTuple):
    threshold: Any = np.full(1, 0.5)


@dataclass(frozen=True)
class Aimless:
    step: float = 0.1


def test_a_rule_may_say_what_it_needs_in_words() -> None:
    assert make_rule()(alpha=0.1).needs is Needs.HIT_OR_MISS


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"state": None}, "still does not say what it remembers; give state="),
        ({"needs": "everything"}, "still needs 'everything', which is none of 'hit or miss'"),
        ({"parameters": dict}, "the parameters of still are no dataclass with alpha"),
        ({"parameters": Aimless}, "the parameters of still are no dataclass with alpha"),
        ({"name": None}, "None cannot name a learner"),
    ],
)
def test_a_rule_that_lacks_something_is_told_what(changed: dict[str, Any], fault: str) -> None:
    """Kills: a rule that is taken as it is, and fails with an attribute error at its first round."""
    with pytest.raises(InvalidError, match=fault):
        make_rule(**changed)


def test_a_valve_finds_the_state_of_a_rule_that_starts_with_a_function() -> None:
    def start(_settings: Any) -> "StillState":
        return StillState(np.full(1, 0.4))

    learner = safety_valve(make_rule(name="started", state=start)(alpha=0.1))
    assert Predictor(learner).predict([0.5, 0.3]).threshold == 0.4


def test_a_valve_around_a_state_that_nobody_named_is_refused() -> None:
    learner = make_rule(name="unnamed", state=lambda _: StillState())(alpha=0.1)
    with pytest.raises(InvalidError, match="unnamed does not say what its state is"):
        safety_valve(learner)


def test_a_valve_around_a_rule_that_nobody_registered_can_be_pickled() -> None:
    """Kills: a valve that travels by its name alone, which another process does not know."""
    arrived = pickle.loads(pickle.dumps(safety_valve(unlisted(alpha=0.1), budget=2.0)))  # noqa: S301
    assert (arrived.name, arrived.parameters.budget) == ("unlisted+valve", 2.0)
    assert Predictor(arrived).predict([0.5, 0.3]).threshold == 0.5
    assert "unlisted" not in LEARNERS


def choose_still(_settings: Any, state: Any, _memo: Any, _ask: Any) -> float:
    return float(state.threshold[0])


def observe_nothing(_settings: Any, _state: Any, _memo: Any, _answer: Any) -> None:
    pass


unlisted = make_rule(name="unlisted", choose=choose_still, observe=observe_nothing)
