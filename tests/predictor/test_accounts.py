"""What is counted of rounds that are answered in every way there is, recomputed from the answers."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keyhole import HIT, MISS, Gate, Predictor, ScaledResiduals
from keyhole.errors import FeedbackError, InvalidError
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import answer_round
from keyhole.predictor.setup import make_setup
from keyhole.predictor.tally import Statistics, Sums
from keyhole.scores import BestScore, Probabilities

ALPHA = 0.2
LABELS = ["a", "b", "c", "d"]


def correct(miss: float, wrong: float) -> float:
    return (miss - wrong) / (1.0 - 2.0 * wrong)


class Account:
    """The sums of answered rounds, each put in as it is."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[float, float, Any, list[int]]] = {}
        self.first: dict[int, float] = {}
        self.amended = 0.0
        self.skipped = 0
        self.late = 0

    def put(self, shown: Any, miss: float, weight: float, groups: list[int]) -> None:
        self.rows[shown.id] = miss, weight, shown, groups
        self.first[shown.id] = miss

    def amend(self, number: int, miss: float) -> None:
        before, weight, shown, groups = self.rows[number]
        self.amended += abs(weight * (miss - before))
        self.rows[number] = miss, weight, shown, groups

    def sum_misses(self, group: int | None = None) -> float:
        return sum(m * w for m, w, _, groups in self.rows.values() if group is None or group in groups)

    def sum_weights(self, group: int | None = None) -> float:
        return sum(w for _, w, _, groups in self.rows.values() if group is None or group in groups)

    def list_told(self) -> list[float]:
        return [0.0, 1.0, *(m for n, m in self.first.items() if self.rows[n][1])]


def judge(
    shown: Any, scores: dict[str, float], rng: np.random.Generator
) -> tuple[dict[str, Any], float]:
    """Return an answer of some form, and the loss that it counts as before it is corrected."""
    label = str(rng.choice(LABELS))
    missed = float(label not in shown)
    form = rng.integers(5)
    if form == 0:
        return {"label": label}, missed
    if form == 1:
        return {"score": scores[label]}, missed
    if form == 2:
        loss = float(rng.integers(5)) / 4.0
        return {"loss": loss}, loss
    if form == 3:
        return {"label": "nobody's"}, 1.0
    return {"answer": MISS if missed or not len(shown) else HIT}, 1.0 if not len(shown) else missed


def test_the_account_of_sets_is_that_of_their_answers() -> None:
    """Kills: a weight, a group, a correction or a condition that is counted otherwise."""
    rng = np.random.default_rng(11)
    predictor: Any = Predictor(alpha=ALPHA, groups=2, seed=3, amend_limit=1_000, open_limit=12)
    account, waiting, expired, beyond = Account(), [], 0, set[int]()
    lost, spared, floor = 0.0, 0, 0
    for step in range(400):
        scores = {label: float(p) for label, p in zip(LABELS, rng.dirichlet(np.ones(4)), strict=True)}
        groups = [n for n in (0, 1) if rng.random() < 0.5]
        shown = predictor.predict(scores, groups=groups)
        waiting.append((shown, scores, groups))
        if len(waiting) > 12:
            floor = waiting.pop(0)[0].id + 1
            expired += 1
        if step % 7 == 6:
            gone = waiting.pop(int(rng.integers(len(waiting))))
            predictor.skip(gone[0])
            account.skipped += 1
        while len(waiting) > 9 or (waiting and rng.random() < 0.6):
            one, its, members = waiting.pop(int(rng.integers(len(waiting))))
            answer, miss = judge(one, its, rng)
            chance = float(rng.choice([1.0, 1.0, 0.5, 0.25]))
            wrong = float(rng.choice([0.0, 0.0, 0.1]))
            if wrong:
                miss = correct(miss, wrong)
                miss = 0.0 if one.threshold <= 0.0 else 1.0 if one.threshold > 1.0 else miss
            predictor.learn(one, answer.pop("answer", None), chance=chance, wrong=wrong, **answer)
            account.put(one, miss, 1.0 / chance, members)
            beyond |= {one.id} if answer.get("label") == "nobody's" else set()
            lost += max(miss, 0.0) / chance if one.threshold <= 0.0 else 0.0
            spared += one.threshold > 1.0 and miss < ALPHA
        if step % 11 == 10 and account.rows:
            number = int(rng.choice(list(account.rows)))
            loss = float(rng.integers(3)) / 2.0
            predictor.amend(number, loss=loss)
            beyond -= {number}
            account.amend(number, loss)
    tally = predictor.progress.tally
    rows = account.rows.values()
    assert (tally.predicted, tally.answered, tally.expired) == (400, len(rows), expired)
    assert (tally.skipped, predictor.open_rounds) == (account.skipped, len(waiting))
    assert (tally.floor, tally.unreachable) == (floor, len(beyond))
    assert tally.weight == pytest.approx(account.sum_weights())
    assert tally.misses == pytest.approx(account.sum_misses())
    assert tally.amended == pytest.approx(account.amended)
    assert tally.size == sum(len(one) for _, _, one, _ in rows)
    assert (tally.lowest, tally.highest) == (min(account.list_told()), max(account.list_told()))
    assert tally.heaviest == max(weight for _, weight, _, _ in rows)
    assert (tally.lost_in_full, tally.spared_empty) == (pytest.approx(lost), spared)
    for group in (0, 1):
        found = [account.sum_weights(group), account.sum_misses(group)]
        assert tally.members[group] == pytest.approx(found)
        assert predictor.groups[group].miss_rate == pytest.approx(found[1] / found[0])
    assert predictor.miss_rate == pytest.approx(tally.misses / tally.weight)
    assert predictor.mean_size == pytest.approx(tally.size / len(rows))


@pytest.mark.parametrize("feedback", ["accepted", "referred", "both"])
def test_the_account_of_a_gate_is_that_of_its_judgements(feedback: str) -> None:
    rng = np.random.default_rng(12)
    gate = Gate(
        alpha=ALPHA, groups=["x", "y"], feedback=feedback, seed=3, amend_limit=1_000, open_limit=12
    )
    account, waiting, expired, accepted, answered = Account(), [], 0, 0, 0
    for step in range(400):
        groups = [name for name in ("x", "y") if rng.random() < 0.5]
        score = float(rng.random())
        shown = gate.decide(score, groups=groups)
        accepted += shown.accepted
        if shown.accepted or feedback != "accepted":
            waiting.append((shown, ["xy".index(name) for name in groups]))
        if len(waiting) > 12:
            waiting.pop(0)
            expired += 1
        if step % 7 == 6 and waiting:
            gate.skip(waiting.pop(int(rng.integers(len(waiting))))[0])
            account.skipped += 1
        while len(waiting) > 9 or (waiting and rng.random() < 0.6):
            one, members = waiting.pop(int(rng.integers(len(waiting))))
            right = bool(rng.random() < 0.9)
            chance = float(rng.choice([1.0, 0.5, 0.25]))
            wrong = float(rng.choice([0.0, 0.0, 0.1]))
            miss = correct(1.0 - right, wrong) if wrong else 1.0 - right
            gate.learn(one, right, chance=chance, wrong=wrong)
            account.put(one, miss, 1.0 / chance if one.accepted else 0.0, members)
            answered += 1
        if step % 11 == 10 and account.rows:
            number = int(rng.choice(list(account.rows)))
            right = bool(rng.random() < 0.5)
            gate.amend(number, right)
            account.amend(number, 1.0 - right)
    tally = gate.progress.tally
    assert (tally.predicted, tally.accepted, tally.answered) == (400, accepted, answered)
    assert (tally.expired, tally.skipped) == (expired, account.skipped)
    assert gate.open_rounds == gate.setup.kind.count_open(gate.setup, tally) == len(waiting)
    assert tally.weight == pytest.approx(account.sum_weights())
    assert tally.misses == pytest.approx(account.sum_misses())
    assert tally.amended == pytest.approx(account.amended)
    assert (tally.lowest, tally.highest) == (min(account.list_told()), max(account.list_told()))
    assert tally.heaviest == max(weight for _, weight, _, _ in account.rows.values())
    for group in (0, 1):
        assert tally.members[group] == pytest.approx(
            [account.sum_weights(group), account.sum_misses(group)]
        )
    assert gate.accepted_share == accepted / 400
    assert gate.wrong_share == pytest.approx(tally.misses / tally.weight)
    assert tally.sum_up() == Sums(answered, tally.misses, tally.weight, 0.0, 0, 400, accepted)
    assert tally.describe() == Statistics(
        accepted_share=gate.accepted_share, wrong_share=gate.wrong_share
    )


def test_open_rounds_are_those_predicted_and_neither_answered_nor_expired_nor_skipped() -> None:
    predictor = Predictor(alpha=ALPHA, open_limit=5)
    for number in range(9):
        predictor.predict([0.6, 0.4])
        if number == 6:
            predictor.skip(6)
    predictor.learn(8, label=0)
    setup, tally = predictor.setup, predictor.progress.tally
    assert (tally.answered, tally.expired, tally.skipped) == (1, 3, 1)
    assert setup.kind.count_open(setup, tally) == predictor.open_rounds == 4
    assert tally.sum_up() == Sums(1, tally.misses, 1.0, tally.size, 1, 9, 0)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_file_is_readable_as_other_files_of_its_owner_are(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        Predictor(alpha=ALPHA).save(tmp_path / "kept")
    finally:
        os.umask(before)
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize("features", [[object()], [[1.0]], ["1"], [10**400], [None, None]])
def test_a_feature_that_is_no_number_is_refused_and_the_round_not_opened(features: Any) -> None:
    predictor: Any = Predictor(alpha=ALPHA, features=1)
    with pytest.raises(InvalidError):
        predictor.predict([0.6, 0.4], features=features)
    assert predictor.predicted_rounds == 0


@pytest.mark.parametrize(
    "answer",
    [{"hit": True, "more": 1}, {"more": 1}, {"chance": 0.5}, {"judged": "hit", "more": 1}, {}, "yes"],
)
def test_an_answer_with_parts_that_nobody_knows_is_none(answer: Any) -> None:
    setup = make_setup(alpha=ALPHA, score=Probabilities())
    progress: Progress = setup.kind.start(setup)
    assert progress.watch is None
    case = setup.kind.read(setup, progress, [0.6, 0.4])
    opened: Any = setup.kind.open(setup.learner, progress, case, 0.5, np.empty(0))
    with pytest.raises(FeedbackError, match="is not an answer"):
        answer_round(setup, progress, opened, answer)
    assert progress.tally.answered == 0


def test_nobody_watches_unless_told() -> None:
    best: Any = BestScore()
    for setup in (
        make_setup(alpha=ALPHA, score=best),
        make_setup(alpha=ALPHA, score=ScaledResiduals()),
    ):
        assert setup.kind.start(setup).watch is None
        assert setup.kind.start(setup, watch=True).watch is not None


@pytest.mark.parametrize(
    ("told", "given"),
    [
        ("hit", {"answer": HIT}),
        ("miss", {"answer": MISS}),
        ({"hit": True}, {"answer": HIT}),
        ({"miss": True}, {"answer": MISS}),
        ({"label": 1}, {"label": 1}),
        ({"score": 0.25}, {"score": 0.25}),
        ({"loss": 0.5}, {"loss": 0.5}),
        ({"label": 0, "chance": 0.5}, {"label": 0, "chance": 0.5}),
        ({"miss": True, "wrong": 0.1}, {"answer": MISS, "wrong": 0.1}),
        ({"judged": "miss"}, {"judged": MISS}),
        ({"judged": "hit", "label": 1}, {"judged": HIT, "label": 1}),
    ],
)
def test_an_answer_of_a_request_is_that_of_the_library(told: Any, given: Any) -> None:
    predictor: Any = Predictor(alpha=ALPHA, seed=3)
    predictor.learn(predictor.predict([0.6, 0.4]), given.pop("answer", None), **given)
    setup = predictor.setup
    progress = setup.kind.start(setup)
    case = setup.kind.read(setup, progress, [0.6, 0.4])
    opened = setup.kind.open(setup.learner, progress, case, 0.5, np.empty(0))
    answer_round(setup, progress, opened, told)
    assert progress.pack(setup.learner) == predictor.progress.pack(setup.learner)
