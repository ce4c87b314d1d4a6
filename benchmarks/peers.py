"""Keyhole beside the libraries that PyPI has, in one run. ``make bench``.

The peers need a hundred packages of their own, so that they live in .venv-peers, made at the first run.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from keyhole import make, simulate
from keyhole.numeric import Array
from rounds import ROUNDS, one_at_a_time, time_compiled

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".venv-peers"
PACKAGES = [
    "online-conformal==1.0.2",
    "river==0.26.1",
    "adaptive-conformal-inference==1.0.1",
    "setuptools<81",
]
SHORT = 2_000  # river's Exp3 overflows after about 2,800 rounds
PEERS = {
    "sf-ogd": ("online-conformal", "sf-ogd"),
    "saocp": ("online-conformal", "saocp"),
    "aci": ("adaptive-conformal-inference", "aci"),
    "exp3": ("river, Exp3", "exp3-ix"),
}


def python() -> Path:
    """Return the peers' interpreter, with the peers installed."""
    interpreter = HOME / "bin" / "python"
    if not (HOME / "ready").exists():
        print("installing the peers into .venv-peers, which takes some minutes")
        subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
        pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--prefer-binary", *PACKAGES], check=True)
        (HOME / "ready").touch()
    return interpreter


def peers(scores: list[float]) -> dict[str, tuple[float, list[float]]]:
    done = subprocess.run(
        [python(), Path(__file__).with_name("peer_rounds.py")],
        input=json.dumps(scores), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(json.loads(done.stdout.splitlines()[-1]))


def judged(ours: Array, theirs: Array) -> str:
    """Say how far two runs agree: a newborn expert of SAOCP stands at the mix, and rounding decides."""
    gap = np.abs(ours - theirs)
    if gap.max() < 1e-9:
        return f"equal to {gap.max():.0e}"
    return f"mean {ours.mean():.3f}, peer's {theirs.mean():.3f}"


def main() -> None:
    scores = np.random.default_rng(0).beta(6, 2, ROUNDS)
    short = scores[:SHORT]
    print("microseconds a round; Keyhole one round at a time through a predictor, and compiled")
    print(f"{'peer':<38}{'peer':>9}{'predictor':>11}{'compiled':>10}   thresholds")
    for name, (micros, played) in peers(short.tolist()).items():
        title, ours = PEERS[name]
        on_grid = ours == "exp3-ix"
        learner = make(
            ours, alpha=0.1, horizon=ROUNDS if on_grid else None, arms=20 if on_grid else None
        )
        step = one_at_a_time(learner, scores, feedback="full")
        fast = time_compiled(learner, scores)
        verdict = judged(simulate(learner, short, feedback="full").thresholds[0], np.array(played))
        print(f"{title + ' / ' + ours:<38}{micros:>9.1f}{step:>11.1f}{fast:>10.3f}   {verdict}")


if __name__ == "__main__":
    main()
