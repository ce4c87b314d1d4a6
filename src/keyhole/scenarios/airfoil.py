"""Airfoil self-noise: real measurements, and a linear regression that learns as they come.

Data: 1,503 wind-tunnel measurements by T. Brooks, D. Pope and M. Marcolini, NASA RP-1218 (1989);
UCI Machine Learning Repository, data set 291, CC BY 4.0.
"""

from dataclasses import dataclass
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.numeric import Array, compile_function, kernel
from keyhole.scenarios import spread_evenly
from keyhole.scores import BoundedResiduals

BOUND = 18.5  # dB; the residual bound u under which the paper's tables come out
SCORE = BoundedResiduals(bound=BOUND)
_WARM_UP = 50
_PRIOR_VARIANCE = 1000.0
_FREQUENCY, _ANGLE, _VELOCITY, _THICKNESS = 0, 1, 3, 4
_HIGH, _STEEP, _FAST = 4000.0, 10.0, 70.0  # Hz, degrees, metres a second
_TILT = np.array([-1.3, 0.0, 0.0, 0.0, 1.0])  # not stated by the paper; fitted to its tables


class Measurements(NamedTuple):
    """The data set: five features a row, and the sound pressure in dB."""

    features: Array
    pressure: Array


@dataclass(frozen=True)
class AirfoilScenario:
    """What the regression predicted before it saw the outcome, and the outcome, round by round."""

    centres: Array
    outcomes: Array
    measured: Array  # frequency, angle, chord, velocity and thickness of each round's row
    changes: tuple[int, ...] = (0,)

    @property
    def features(self) -> Array:
        return np.column_stack((self.measured, self.centres))

    @property
    def groups(self) -> NDArray[np.bool_]:
        return np.column_stack(
            (
                self.measured[:, _FREQUENCY] > _HIGH,
                self.measured[:, _ANGLE] > _STEEP,
                self.measured[:, _VELOCITY] > _FAST,
            )
        )

    @property
    def scores(self) -> Array:
        """1 - |residual| / bound, clipped to [0, 1].

        As in the paper, a residual beyond the bound scores 0 and is covered by threshold 0; a
        predictor that is told the true value counts it as a miss.
        """
        return np.clip(1.0 - np.abs(self.outcomes - self.centres) / BOUND, 0.0, 1.0)

    def sizes(self, thresholds: Array) -> Array:
        """Return the interval lengths in dB."""
        return 2.0 * BOUND * (1.0 - np.clip(thresholds, 0.0, 1.0))


def measurements() -> Measurements:
    with (resources.files("keyhole.scenarios") / "data" / "airfoil.csv").open() as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    return Measurements(features=table[:, :-1], pressure=table[:, -1])


def airfoil(rounds: int, *, seed: int, shift: bool = False, in_order: bool = False) -> AirfoilScenario:
    """Return rows drawn with replacement, each predicted by least squares before it is learnt.

    Parameters
    ----------
    rounds
        How many rounds.
    seed
        Fixes the rows drawn.
    shift
        After the first third, draw high displacement thickness and low frequency more often, and
        learn no more: the paper's covariate shift.
    in_order
        Put the rows, once drawn, in the order of the experiments: one airfoil and wind after another.
    """
    data = measurements()
    rng = np.random.default_rng(seed)
    calm = _WARM_UP + (rounds // 3 if shift else rounds)
    rows = rng.integers(data.pressure.size, size=calm)
    changes = spread_evenly(rounds) if in_order else (0,)
    if shift:
        changes = (0, calm - _WARM_UP)
        tilted = rng.choice(data.pressure.size, size=rounds + _WARM_UP - calm, p=_tilt(data.features))
        rows = np.concatenate((rows, tilted))
    if in_order:
        rows[_WARM_UP:] = np.sort(rows[_WARM_UP:])
    inputs = np.column_stack((np.ones(data.pressure.size), _standard(data.features)))
    centres = np.empty(rows.size)
    compile_function(_recursive_least_squares)(inputs, data.pressure, rows, calm, centres)
    played = rows[_WARM_UP:]
    return AirfoilScenario(centres[_WARM_UP:], data.pressure[played], data.features[played], changes)


def _standard(features: Array) -> Array:
    return (features - features.mean(axis=0)) / features.std(axis=0)


def _tilt(features: Array) -> Array:
    """Return how likely each row is after the shift."""
    logged = features.copy()
    for column in (_FREQUENCY, _THICKNESS):
        logged[:, column] = np.log(logged[:, column])
    weights = np.exp(_standard(logged) @ _TILT)
    return weights / weights.sum()


@kernel
def _recursive_least_squares(
    inputs: Array, outcomes: Array, rows: NDArray[np.int64], learning: int, centres: Array
) -> None:
    """Fill ``centres`` with predictions made before each outcome; the first rows are learnt."""
    width = inputs.shape[1]
    weights = np.zeros(width)
    variance = _PRIOR_VARIANCE * np.eye(width)
    spread = np.empty(width)
    for n in range(rows.size):
        x = inputs[rows[n]]
        centre = 0.0
        for i in range(width):
            centre += weights[i] * x[i]
        centres[n] = centre
        if n >= learning:
            continue
        total = 1.0
        for i in range(width):
            spread[i] = 0.0
            for j in range(width):
                spread[i] += variance[i, j] * x[j]
            total += x[i] * spread[i]
        residual = outcomes[rows[n]] - centre
        for i in range(width):
            weights[i] += spread[i] / total * residual
            for j in range(width):
                variance[i, j] -= spread[i] * spread[j] / total
