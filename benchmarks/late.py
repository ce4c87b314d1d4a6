"""What late answers do to the size of sets.

    python benchmarks/late.py [--quick|--others|--start] [--alphas A ...]

Seven scenarios, nine ways in which answers travel. Of each run: how far the miss rate is from alpha
after the first tenth, and the size of its sets over that of the best threshold of each segment in
hindsight. ``alike`` is the same rule when every answer counts alike, however old.

With ``--start`` other scenarios, most of which begin far from where they belong, and whole runs: the
size of sets over that of the same learner with prompt answers, beginning included.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from keyhole import kernel, make, simulate
from keyhole.feedback import Answer
from keyhole.learners import Learner, Rule, find
from keyhole.numeric import Array, Counts, bind
from keyhole.simulation import Channel

ROUNDS, QUICK_ROUNDS = 30_000, 10_000
ALPHAS = (0.05, 0.1, 0.2)
SMALLEST = 1e-6  # Below this threshold a set is as large as here, so that none is endless.
IMAGENET = "imagenet_val5000_mobilenet_v2.npz"
DEFAULT = ("informed-tracker", "logit-tracker")
OTHERS = ("tracker", "sf-ogd", "self-scaled", "aci", "kt", "pi", "agaci", "tracker-decaying")
CHANNELS = {
    "at once": Channel(),
    "10 late": Channel(delay=10),
    "100 late": Channel(delay=100),
    "geometric, mean 300": Channel(delay=300, geometric=True),
    "batches of 100": Channel(batch=100),
    "1,000 late": Channel(delay=1_000),
    "batches of 1,000": Channel(batch=1_000),
    "9 in 10 never": Channel(lost=0.9),
    "19 in 20 never, 1,000 late": Channel(lost=0.95, delay=1_000),
}
FEWER = ("at once", "10 late", "100 late", "geometric, mean 300", "batches of 100", "1,000 late",
         "batches of 1,000", "9 in 10 never")  # fmt: skip
_observe: Any = None


@kernel
def observe_alike(settings: Any, state: Any, memo: Array, answer: Answer) -> None:
    """Hear an answer as if it had come at once."""
    _observe(settings, state, memo, Answer(answer.miss, answer.score, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0))


ALIKE: dict[str, Rule[...]] = {}


def make_alike(name: str, alpha: float) -> Learner:
    """Return the learner to which every answer counts alike, however old."""
    if name not in ALIKE:
        rule = find(name)
        ALIKE[name] = replace(
            rule, name=f"{name} alike", observe=bind(observe_alike, _observe=rule.observe)
        )
    return ALIKE[name](alpha=alpha)


@dataclass(frozen=True)
class Scenario:
    """Scores of the truth, sizes of sets, and where segments start."""

    scores: Array
    sizes: Callable[[Array], Array]
    starts: tuple[int, ...] = (0,)

    def best(self, alpha: float) -> Array:
        """Return the size that the best threshold of each segment has, round by round."""
        thresholds = np.empty(self.scores.size)
        for start, end in zip(self.starts, (*self.starts[1:], self.scores.size), strict=True):
            own = np.sort(self.scores[start:end])
            thresholds[start:end] = own[int(alpha * own.size)]
        return self.sizes(thresholds)


def residuals(errors: Array, scale: float, starts: tuple[int, ...] = (0,)) -> Scenario:
    """Return intervals around a forecast with these errors."""
    return Scenario(
        1.0 / (1.0 + np.abs(errors) / scale),
        lambda thresholds: 2.0 * scale * np.maximum(0.0, 1.0 / thresholds - 1.0),
        starts,
    )


def images(
    probabilities: Array, labels: Counts, chosen: Counts, starts: tuple[int, ...] = (0,)
) -> Scenario:
    """Return sets of labels for these images, in this order."""
    ranked = np.sort(probabilities, axis=1)
    classes = ranked.shape[1]
    # One sorted array of all images: image n takes the stretch from 2 n to 2 n + 1.
    keys = (ranked + 2.0 * np.arange(len(ranked))[:, None]).ravel()

    def sizes(thresholds: Array) -> Array:
        below = np.searchsorted(keys, np.minimum(thresholds, 1.5) + 2.0 * chosen)
        return (chosen + 1) * classes - below

    return Scenario(probabilities[chosen, labels[chosen]], sizes, starts)


def load_images() -> tuple[Array, Counts, str]:
    """Return probabilities and labels: of real images where the file is, else generated ones."""
    beside = Path(__file__).parents[2] / "shared" / "data" / IMAGENET
    path = Path(os.environ.get("KEYHOLE_IMAGENET", beside))
    if path.is_file():
        with np.load(path) as held:
            logits, labels = held["logits"].astype(np.float64), held["labels"].astype(np.int64)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True), labels, "real MobileNetV2 outputs"
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.full(100, 0.03), 5_000)
    labels = (probabilities.cumsum(axis=1) > rng.random((5_000, 1))).argmax(axis=1)
    return probabilities, labels, "generated outputs of 100 classes"


def make_scenarios(rounds: int) -> tuple[dict[str, Scenario], str]:
    """Return the seven scenarios, and what the images are."""
    rng = np.random.default_rng(1)
    probabilities, labels, source = load_images()
    half = rounds // 2
    easy = np.argsort(-probabilities[np.arange(labels.size), labels])
    first, second = rng.choice(easy[:4_000], half), rng.choice(easy[1_000:], rounds - half)
    noise, quarter = rng.standard_normal((4, rounds)), rounds // 4
    waves = 1.0 + 0.8 * np.sin(np.arange(rounds) / 500.0)
    jumps = np.repeat([1.0, 4.0, 0.5, 2.0], quarter)
    scenarios = {
        "images": images(probabilities, labels, rng.integers(0, labels.size, rounds)),
        "images, shifted": images(probabilities, labels, np.concatenate((first, second)), (0, half)),
        "images, cubed": images(probabilities**3, labels, rng.integers(0, labels.size, rounds)),
        "waves": residuals(waves * noise[0], 1.0),
        "jumps": residuals(jumps * noise[1], 1.0, tuple(range(0, rounds, quarter))),
        "scale 30 times too large": residuals(noise[2], 30.0),
        "scale 30 times too small": residuals(noise[3], 1.0 / 30.0),
    }
    return scenarios, source


def make_far_scenarios(rounds: int) -> dict[str, Scenario]:
    """Return eight others: most begin far from where they belong, or go far."""
    rng = np.random.default_rng(77)
    probabilities, labels, _ = load_images()
    noise, fifth = rng.standard_normal((5, rounds)), rounds // 5
    jumps = np.repeat([1.0, 10.0, 0.3, 3.0, 1.0], fifth)
    walk = np.exp(0.01 * np.cumsum(rng.standard_normal(rounds)))
    return {
        "scale 100 times too large": residuals(noise[0], 100.0),
        "scale 100 times too small": residuals(noise[1], 0.01),
        "Laplace, 100 times too large": residuals(rng.laplace(size=rounds), 100.0),
        "heavy tails, 100 times too small": residuals(rng.standard_t(3, rounds), 0.01),
        "jumps by up to 30": residuals(jumps * noise[2], 1.0, tuple(range(0, rounds, fifth))),
        "random walk of the scale": residuals(walk * noise[3], 1.0),
        "errors bounded by the scale": residuals(rng.uniform(-1.0, 1.0, rounds), 1.0),
        "images, squared": images(probabilities**2, labels, rng.integers(0, labels.size, rounds)),
    }


@dataclass(frozen=True)
class Measure:
    """Of one run: |miss rate - alpha|, and the size over the best's."""

    off: float
    size: float


def measure(learner: Learner, scenario: Scenario, channel: Channel) -> Measure:
    """Return what a run comes to after its first tenth."""
    run = simulate(learner, scenario.scores, channel=channel)
    after = slice(scenario.scores.size // 10, None)
    played = scenario.sizes(np.maximum(run.thresholds[0], SMALLEST))[after].mean()
    best = scenario.best(learner.alpha)[after].mean()
    return Measure(abs(run.misses[0, after].mean() - learner.alpha), played / best)


def measure_start(name: str, alphas: tuple[float, ...], rounds: int) -> Iterator[str]:
    """Yield a line for every way that answers travel: whole sizes over those of prompt answers."""
    scenarios = make_far_scenarios(rounds)

    def play(alpha: float, scenario: Scenario, channel: str) -> tuple[float, float]:
        run = simulate(make(name, alpha=alpha), scenario.scores, channel=CHANNELS[channel])
        played = scenario.sizes(np.maximum(run.thresholds[0], SMALLEST)).mean()
        return float(played), abs(run.misses[0].mean() - alpha)

    pairs = [(alpha, one) for alpha in alphas for one in scenarios]
    prompt = {pair: play(pair[0], scenarios[pair[1]], "at once")[0] for pair in pairs}
    for channel in FEWER[1:]:
        runs = {pair: play(pair[0], scenarios[pair[1]], channel) for pair in pairs}
        ratios = {pair: size / prompt[pair] for pair, (size, _) in runs.items()}
        worst = max(ratios, key=ratios.__getitem__)
        off, mean = np.mean([off for _, off in runs.values()]), np.log(list(ratios.values())).mean()
        yield (
            f"{name:<18}{channel:<22}{off:.4f} / {np.exp(mean):.2f} / {ratios[worst]:.1f}"
            f"  {worst[1]}, alpha {worst[0]}"
        )


def summarise(runs: list[Measure]) -> str:
    """Return mean distance, geometric mean and worst of the sizes."""
    sizes = np.array([run.size for run in runs])
    off = np.mean([run.off for run in runs])
    return f"{off:.4f} / {np.exp(np.log(sizes).mean()):.2f} / {sizes.max():.1f}"


def measure_all(
    names: tuple[str, ...], channels: tuple[str, ...], alphas: tuple[float, ...], rounds: int
) -> Iterator[tuple[str, str, list[Measure], list[Measure]]]:
    scenarios, source = make_scenarios(rounds)
    print(f"{rounds:,} rounds, alpha {', '.join(map(str, alphas))}; images: {source}")
    for name in names:
        for channel in channels:
            pairs = [(alpha, one) for alpha in alphas for one in scenarios.values()]
            alike = [measure(make_alike(name, a), one, CHANNELS[channel]) for a, one in pairs]
            now = [measure(make(name, alpha=a), one, CHANNELS[channel]) for a, one in pairs]
            yield name, channel, alike, now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10,000 rounds, alpha 0.1")
    parser.add_argument("--others", action="store_true", help="the other learners that step per answer")
    parser.add_argument("--learners", nargs="+", help="these")
    parser.add_argument("--start", action="store_true", help="whole runs that begin far off")
    parser.add_argument("--alphas", nargs="+", type=float, help="these targets")
    options = parser.parse_args()
    names = tuple(options.learners or (OTHERS if options.others else DEFAULT))
    if options.start:
        rounds = QUICK_ROUNDS if options.quick else ROUNDS
        alphas = tuple(options.alphas or ALPHAS)
        print(f"{rounds:,} rounds, alpha {', '.join(map(str, alphas))}, beginning included")
        print("mean |miss rate - alpha| / geometric mean size over prompt answers' / worst, and where")
        for name in names:
            for line in measure_start(name, alphas, rounds):
                print(line, flush=True)
        return
    few = options.quick or options.others
    rows = measure_all(
        names,
        FEWER if few else tuple(CHANNELS),
        tuple(options.alphas or ((0.1,) if few else ALPHAS)),
        QUICK_ROUNDS if options.quick else ROUNDS,
    )
    print("mean |miss rate - alpha| / geometric mean size over the best per segment / worst")
    print(f"{'learner':<18}{'answers':<28}{'alike':<32}{'as it is'}")
    for name, channel, alike, now in rows:
        print(f"{name:<18}{channel:<28}{summarise(alike):<32}{summarise(now)}", flush=True)


if __name__ == "__main__":
    main()
