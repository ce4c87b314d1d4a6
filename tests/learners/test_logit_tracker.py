"""One answer of the logit tracker in states all over, against the rule as docs/rules.md has it."""

import math

import numpy as np
import pytest

from keyhole import make
from keyhole.feedback import Answer
from tests.docs.anew import Case, LogitTracker, Opened

END = math.log((1.0 - 1e-6) / 1e-6) + 0.5


class FromThePage(LogitTracker):
    age, stale, pace = 0, 0.0, 1.0

    def find_delay(self, opened: Opened) -> tuple[int, float]:  # noqa: ARG002
        return self.age, self.stale

    def find_pace(self, weight: float) -> float:  # noqa: ARG002
        return self.pace

    def pack(self) -> list[float]:
        return [self.z, self.excess, self.k, self.level, self.scale]


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.45])
def test_any_answer_in_any_state_does_what_the_page_says(alpha: float) -> None:
    rng, learner = np.random.default_rng(4), make("logit-tracker", alpha=alpha)
    for _ in range(400):
        anew = FromThePage(alpha)
        anew.k = int(rng.choice([0, 1, 10, 39, 40, 41, 400, 9_000]))
        anew.z = min(max(float(rng.choice([0.0, rng.normal(0.0, 3.0), END, -END])), -END), END)
        anew.scale, anew.level = float(rng.choice([1.0, 2.0])), int(rng.choice([0, 3, 40]))
        most, least = (
            anew.scale * (anew.most + 2 * anew.level),
            anew.scale * (anew.least + 2 * anew.level),
        )
        near = rng.choice([most - 0.5, most + 0.5, -least - 0.5, -least + 0.5, -alpha * anew.k])
        anew.excess = float(rng.choice([0.0, near, near, rng.normal(0.0, 9.0)]))
        state = type(learner.start())(*([one] for one in anew.pack()))
        threshold, memo = learner.choose(state)
        opened = anew.choose(Case())
        assert threshold == pytest.approx(opened.threshold, abs=1e-12)
        miss = float(rng.choice([0.0, 1.0, 0.5, alpha, -0.125, 1.125]))
        anew.age = int(rng.choice([0, 3, 4, 60]))
        anew.stale = anew.age + float(rng.choice([0.0, 0.0, 1.0, 400.0]))
        weight = float(rng.choice([1.0, 1.0, 0.5, 4.0]))
        anew.pace = 1.0 if weight == 1.0 else float(rng.choice([0.25, 0.5, 1.0, 2.0]))
        answer = Answer(miss, math.nan, float(anew.age), anew.stale, weight=weight, pace=anew.pace)
        learner.observe(state, memo, answer)
        anew.observe(opened, miss, weight=weight, score=None)
        assert [part[0] for part in state] == pytest.approx(anew.pack(), abs=1e-11)


def test_an_amendment_moves_it_by_its_pace_and_is_no_round() -> None:
    learner = make("logit-tracker", alpha=0.1)
    state = learner.start()
    state.rounds[0] = 1_000
    learner.observe(state, learner.new_memo(), Answer(1.1, weight=4.0, pace=0.5, amends=1.0))
    assert state.position[0] == pytest.approx(-0.1 * 0.5)
    assert (state.excess[0], state.rounds[0]) == (pytest.approx(4.0), 1_000)
