"""What a scenario knows of each case, and how evenly a run misses over groups of cases."""

import math

import numpy as np
from numpy.typing import NDArray

from keyhole.numeric import Array
from keyhole.scenarios import ContextualScenario, Scenario

FEWEST = 500  # rounds of a group that is judged
_PARTS = 3


def read_context(scenario: Scenario) -> dict[str, Array]:
    """Return the features and the groups of every round, as far as the scenario has any."""
    if not isinstance(scenario, ContextualScenario):
        return {}
    known: dict[str, Array] = {}
    if scenario.features is not None:
        known["features"] = scenario.features.values
    if scenario.groups is not None:
        known["groups"] = scenario.groups.members.astype(np.float64)
    return known


def judge_groups(scenario: Scenario) -> NDArray[np.bool_]:
    """Return a column for every group of rounds that is judged: the scenario's, thirds of features."""
    known = read_context(scenario)
    columns = list(known["groups"].T > 0.0) if "groups" in known else []
    for values in known.get("features", np.empty((0, 0))).T:
        edges = np.quantile(values[np.isfinite(values)], [part / _PARTS for part in range(1, _PARTS)])
        parts = np.where(np.isfinite(values), np.searchsorted(edges, values), _PARTS)
        columns += [parts == part for part in range(_PARTS + 1)]  # the last are those missing
    judged = [column for column in columns if column.sum() >= FEWEST]
    return np.column_stack(judged) if judged else np.empty((scenario.scores.size, 0), dtype=np.bool_)


def worst_group(misses: NDArray[np.bool_], members: NDArray[np.bool_], alpha: float) -> float:
    """Return the largest distance of a group's miss rate from alpha; NaN where no group is judged."""
    return max((abs(float(misses[own].mean()) - alpha) for own in members.T), default=math.nan)
