"""Compiled and interpreted kernels give the same bits."""

import numpy as np

from keyhole import LEARNERS, simulate
from keyhole.learners import make_suited
from tests.learners.lanes import play_script

PLAY = """
import sys
import numpy as np
from keyhole import LEARNERS, simulate
from keyhole.learners import make_suited

scores = np.random.default_rng(11).beta(6, 2, 1_500)
for name in LEARNERS:
    learner = make_suited(name, alpha=0.1, horizon=1_500, arms=20)
    sys.stdout.buffer.write(simulate(learner, scores, seed=5, feedback="full").thresholds.tobytes())
"""


def test_interpreted_kernels_play_the_same_thresholds_bit_for_bit() -> None:
    scores = np.random.default_rng(11).beta(6, 2, 1_500)
    learners = [make_suited(name, alpha=0.1, horizon=1_500, arms=20) for name in LEARNERS]
    compiled = [simulate(one, scores, seed=5, feedback="full").thresholds for one in learners]
    assert play_script(PLAY, compiled=False) == b"".join(values.tobytes() for values in compiled)
