"""What features and groups buy and cost: ``python benchmarks/features.py [--alpha A]``.

Forecasts of a linear model that is fitted anew every 200 rounds on all that it has seen. Of each
scenario: the mean length of intervals relative to the default's, which knows nothing of a case, and the
worst |miss rate - alpha| over groups of rounds: thirds of the forecast and of every feature. ``groups``
know the thirds of the forecast and of the first feature. Scenarios of river are played where it is
installed. None of them was used to choose a constant.
"""

import argparse
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LinearRegression

from keyhole import make, simulate
from keyhole.numeric import Array
from keyhole.simulation import Simulation

WARM_UP = 200
FEWEST = 1_000  # rounds of a group that is judged
LEARNERS = ("features", "groups", "both", "mvp")


def forecast(known: Array, truths: Array) -> tuple[Array, Array, Array]:
    """Return features (the forecast among them), truths and forecasts, each made of the past alone."""
    guesses = np.full(truths.size, np.nan)
    for start in range(WARM_UP, truths.size, WARM_UP):
        model = LinearRegression().fit(known[:start], truths[:start])
        guesses[start : start + WARM_UP] = model.predict(known[start : start + WARM_UP])
    later = slice(WARM_UP, None)
    return np.column_stack((known, guesses))[later], truths[later], guesses[later]


def make_scenarios(rounds: int) -> Iterator[tuple[str, Array, Array]]:
    """Return names, features and truths."""
    yield "friedman 1", *datasets.make_friedman1(rounds, n_features=8, noise=1.0, random_state=1)
    yield "friedman 2", *datasets.make_friedman2(rounds, noise=50.0, random_state=2)
    yield "friedman 3", *datasets.make_friedman3(rounds, noise=0.1, random_state=3)
    rng = np.random.default_rng(4)
    known = rng.random((rounds, 4))
    spread = 0.2 + known[:, 1] ** 2
    yield "heteroscedastic", known, 3.0 * known[:, 0] + spread * rng.standard_normal(rounds)
    patients: Any = datasets.load_diabetes()
    drawn = np.random.default_rng(5).integers(0, patients.target.size, rounds)
    yield "diabetes, resampled", patients.data[drawn], patients.target[drawn]
    noise = np.random.default_rng(6).standard_normal((rounds, 20))
    yield "20 useless features", noise, np.random.default_rng(7).standard_normal(rounds)
    if find_spec("river"):
        yield from _read_river()


def _read_river() -> Iterator[tuple[str, Array, Array]]:
    from river.datasets import TrumpApproval, WaterFlow

    rows = [(moment["Time"], flow) for moment, flow in WaterFlow()]
    flows = np.array([flow for _, flow in rows])
    hours = np.array([[time.hour, time.weekday()] for time, _ in rows], dtype=np.float64)
    past = np.column_stack((hours[2:], flows[1:-1], flows[:-2]))
    yield "river: water flow", past, flows[2:]
    polls = [(list(known.values()), share) for known, share in TrumpApproval()]
    yield (
        "river: approval",
        np.array([known for known, _ in polls], dtype=np.float64),
        np.array([share for _, share in polls]),
    )


def cut_thirds(values: Array) -> Array:
    """Return three columns: whether each value is in the low, the middle, the high third."""
    low, high = np.quantile(values, [1 / 3, 2 / 3])
    return np.column_stack((values <= low, (values > low) & (values <= high), values > high))


def play(how: str, scores: Array, features: Array, groups: Array, alpha: float) -> Simulation:
    """Return the run of a learner that knows this much."""
    if how == "default":
        return simulate(make("logit-tracker", alpha=alpha), scores)
    known = {"features": features} if how in ("features", "both") else {}
    members = {"groups": groups} if how != "features" else {}
    given: dict[str, Array] = {**known, **members}
    counts = {name: table.shape[1] for name, table in given.items()}
    name = "mvp" if how == "mvp" else "contextual-tracker"
    return simulate(make(name, alpha=alpha, options=counts), scores, **given)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=20_000)
    options = parser.parse_args()
    alpha, ratios = options.alpha, []
    print(
        f"alpha {alpha}: length relative to the default's / worst |miss rate - alpha| over all thirds"
    )
    print("/ over those that groups know, of the forecast and of the first feature")
    print(f"{'scenario':<22}{'rounds':>7}  {'default':<22}" + "".join(f"{h:<22}" for h in LEARNERS))
    for name, known, truths in make_scenarios(options.rounds):
        features, later, guesses = forecast(known, truths)
        scale = np.abs(later - guesses)[:50].mean()
        scores = 1.0 / (1.0 + np.abs(later - guesses) / scale)
        groups = np.hstack([cut_thirds(features[:, column]) for column in (-1, 0)])
        judged = np.hstack([cut_thirds(column) for column in features.T])
        judged = judged[:, judged.sum(axis=0) >= min(FEWEST, scores.size // 4)]
        cells, lengths = [], []
        for how in ("default", *LEARNERS):
            run = play(how, scores, features, groups, alpha)
            lengths.append((1.0 / np.maximum(run.thresholds[0], 1e-6) - 1.0).mean())
            worst, worst_known = (
                max(abs(run.misses[0, own].mean() - alpha) for own in members.T)
                for members in (judged, groups)
            )
            cells.append(f"{lengths[-1] / lengths[0]:.3f} / {worst:.3f} / {worst_known:.3f}")
        ratios.append(np.array(lengths) / lengths[0])
        print(f"{name:<22}{scores.size:>7}  " + "".join(f"{one:<22}" for one in cells), flush=True)
    means = np.exp(np.log(ratios).mean(axis=0))
    print(f"{'geometric mean':<31}" + "".join(f"{one:<22.3f}" for one in means))


if __name__ == "__main__":
    main()
