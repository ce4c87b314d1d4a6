import math

import numpy as np
import pytest

from keyhole.numeric import ln, logit, sigmoid, tan


def test_logarithm_is_that_of_the_library_to_rounding() -> None:
    for x in np.concatenate((np.geomspace(1e-300, 1e300, 2_001), np.linspace(0.5, 2.0, 1_001))):
        assert ln(x) == pytest.approx(math.log(x), rel=4e-16, abs=4e-16)


def test_tangent_is_that_of_the_library_up_to_its_poles() -> None:
    for x in np.linspace(-1.57, 1.57, 2_001):
        assert tan(x) == pytest.approx(math.tan(x), rel=1e-12, abs=1e-15)


def test_sigmoid_and_logit_undo_each_other() -> None:
    for z in np.linspace(-13.0, 13.0, 501):
        assert logit(sigmoid(z), 20.0) == pytest.approx(z, abs=1e-9)


def test_sigmoid_keeps_its_relative_precision_near_zero() -> None:
    assert sigmoid(-13.8) == pytest.approx(1.0 / (1.0 + math.exp(13.8)), rel=1e-12)


def test_logit_stays_within_its_edges() -> None:
    assert logit(0.0, 5.0) == -5.0
    assert logit(1.0, 5.0) == 5.0
    assert logit(1e-9, 5.0) == -5.0
