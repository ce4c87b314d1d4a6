"""One round at a time with the libraries that PyPI has; run by peers.py in their own environment.

Reads scores as JSON on standard input, writes each peer's microseconds a round and thresholds.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

ALPHA = 0.1
ARMS = 20
Played = tuple[float, list[float]]


def timed(scores: list[float], step: Callable[[float], float]) -> Played:
    began = time.perf_counter()
    played = [step(score) for score in scores]
    return (time.perf_counter() - began) / len(scores) * 1e6, played


def residuals(scores: list[float], predictor: Any) -> Played:
    """A predictor of residual quantiles: the threshold is 1 less its radius."""
    import pandas as pd

    zero = pd.Series([0.0])

    def step(score: float) -> float:
        threshold = 1.0 - predictor.predict(1)[1]
        predictor.update(pd.Series([1.0 - score]), zero, 1)
        return float(threshold)

    return timed(scores, step)


def sf_ogd(scores: list[float]) -> Played:
    from online_conformal.ogd import ScaleFreeOGD

    return residuals(scores, ScaleFreeOGD(None, None, coverage=1 - ALPHA, max_scale=1.0))


def saocp(scores: list[float]) -> Played:
    from online_conformal.saocp import SAOCP

    return residuals(scores, SAOCP(None, None, coverage=1 - ALPHA, max_scale=1.0))


def aci(scores: list[float]) -> Played:
    from aci import ACI

    rule = ACI(alpha=ALPHA, gamma=0.005, lookback=500)

    def step(score: float) -> float:
        _, upper = rule.issue(0.0)
        rule.observe(1.0 - score)
        return 1.0 - float(upper)

    return timed(scores, step)


def exp3(scores: list[float]) -> Played:
    from river import bandit

    policy = bandit.Exp3(gamma=0.1, seed=0)
    arms = list(range(ARMS))

    def step(score: float) -> float:
        arm = policy.pull(arms)
        threshold = arm / (ARMS - 1)
        loss = score - ALPHA * threshold if threshold <= score else (1 - ALPHA) * threshold
        policy.update(arm, 1.0 - loss)
        return threshold

    return timed(scores, step)


def main() -> None:
    warnings.simplefilter("ignore")
    scores = json.load(sys.stdin)
    peers = {"sf-ogd": sf_ogd, "saocp": saocp, "aci": aci, "exp3": exp3}
    json.dump({name: play(scores) for name, play in peers.items()}, sys.stdout)


if __name__ == "__main__":
    main()
