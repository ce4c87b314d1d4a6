"""Forecasts that work without guessing a scale."""

import math
import struct
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pytest

from keyhole import HIT, MISS, Predictor, Probabilities, QuantileBands, ScaledResiduals, bounds
from keyhole.errors import FeedbackError, ScoreError, SnapshotError
from keyhole.feedback import Answer, Needs
from keyhole.learners import About, Rule
from keyhole.learners.parameters import parameters, target
from keyhole.predictor.scale import Scale
from keyhole.scores import Interval

ROUNDS = 4000


def play(score: ScaledResiduals, residuals: np.ndarray) -> tuple[Predictor[Interval], np.ndarray]:
    predictor = Predictor(alpha=0.1, score=score)
    widths = np.empty(residuals.size)
    for n, residual in enumerate(residuals.tolist()):
        shown = predictor.predict(50.0)
        widths[n] = shown.width
        predictor.learn(shown, label=50.0 + residual)
    return predictor, widths


@pytest.fixture(scope="module")
def residuals() -> np.ndarray:
    return np.random.default_rng(4).normal(size=ROUNDS)


@pytest.mark.parametrize("scale", [1e6, 1e-6, None])
def test_a_wrong_scale_or_none_ends_within_a_twentieth_of_the_right_width(
    residuals: np.ndarray, scale: float | None
) -> None:
    _, right = play(ScaledResiduals(scale=1.0), residuals)
    predictor, widths = play(ScaledResiduals(scale=scale), residuals)
    assert widths[2000:].mean() == pytest.approx(right[2000:].mean(), rel=0.05)
    assert abs(predictor.miss_rate - 0.1) < 200 / ROUNDS


def test_one_outlier_among_the_first_values_does_not_matter(residuals: np.ndarray) -> None:
    spoilt = residuals.copy()
    spoilt[0] = 1e9
    _, widths = play(ScaledResiduals(), spoilt)
    _, clean = play(ScaledResiduals(), residuals)
    assert widths[2000:].mean() == pytest.approx(clean[2000:].mean(), rel=0.05)


@pytest.mark.parametrize("zeros", [1, 24, 25, 100])
def test_a_stream_that_begins_with_exact_forecasts_has_a_width_from_the_first_other_one_on(
    zeros: int,
) -> None:
    predictor = Predictor(alpha=0.1, score=ScaledResiduals())
    for _ in range(zeros):
        predictor.learn(predictor.predict(5.0), label=5.0)
    copied: Predictor[Interval] = Predictor.restore(predictor.dump())
    for one in (predictor, copied):
        one.learn(one.predict(5.0), label=6.0)
        assert 0.0 < one.predict(5.0).width < math.inf


def test_history_that_begins_with_exact_forecasts_gives_a_width() -> None:
    predictor = Predictor(alpha=0.1, score=ScaledResiduals())
    outcomes = [0.0] * 30 + np.random.default_rng(0).normal(size=500).tolist()
    predictor.calibrate([0.0] * 530, outcomes)
    assert predictor.predict(0.0).width == pytest.approx(3.29, rel=0.2)


def test_until_one_value_is_known_the_interval_is_the_whole_line_and_no_longer() -> None:
    predictor = Predictor(alpha=0.1, score=ScaledResiduals())
    first, second = predictor.predict(5.0), predictor.predict(5.0)
    assert first.width == second.width == math.inf
    predictor.learn(second, label=6.0)
    assert predictor.predict(5.0).width < math.inf
    assert predictor.mean_size != predictor.mean_size  # NaN: no bounded interval was answered yet
    assert predictor.unbounded_share == 1.0


def test_hits_of_the_whole_line_move_no_threshold_and_shift_the_bound_by_what_they_are_worth() -> None:
    predictor = Predictor("logit-tracker", alpha=0.1, score=ScaledResiduals())
    shown = predictor.predict_batch([0.0] * 40)
    predictor.learn_batch(shown, [float(n) for n in range(1, 41)])
    assert predictor.distribution.thresholds.tolist() == [0.5]
    assert (predictor.rounds, predictor.miss_rate) == (40, 0.0)
    plain = Predictor("logit-tracker", alpha=0.1, score=ScaledResiduals(scale=1.0))
    plain.learn_batch(plain.predict_batch([0.0] * 40), [0.0] * 40)
    # Forty hits are an excess of -4 that the learner's own count, which the theorem bounds, has not.
    ours, theirs = predictor.bound(rounds=5_000), plain.bound(rounds=5_000)
    assert ours == pytest.approx((theirs.least - 4.0, theirs.most - 4.0))


def test_history_that_begins_without_a_scale_is_accounted_for_alike() -> None:
    predictor = Predictor("logit-tracker", alpha=0.1, score=ScaledResiduals())
    predictor.calibrate([0.0] * 3, [1.0, 9.0, 0.1])
    # The first is shown the whole line and moves nothing: the account has a miss and a hit, -.2 + 1.
    assert predictor.bound(rounds=10_000).most == pytest.approx(
        bounds.excess(predictor.learner, rounds=10_003).most - 0.8
    )


class Heard(NamedTuple):
    """How many scores were heard, and which."""

    scores: np.ndarray = np.zeros(9)


def hear(_settings: Any, state: Heard, _memo: Any, answer: Answer) -> None:
    state.scores[0] += 1
    state.scores[int(state.scores[0])] = answer.score


@parameters
class ListenerParameters:
    """The target alone."""

    alpha: float = target()


LISTENER = Rule(
    name="listener",
    needs=Needs.LABEL_ALWAYS,
    parameters=ListenerParameters,
    choose=lambda _settings, _state, _memo, _ask: 0.5,
    observe=hear,
    state=Heard,
    about=About(summary="it listens", guarantee="nothing", source="this test"),
)


def test_a_learner_hears_every_residual_at_the_scale_of_now() -> None:
    predictor = Predictor(LISTENER(alpha=0.1), score=ScaledResiduals(), feedback="full")
    first, second, third = predictor.predict_batch([0.0] * 3)
    predictor.learn(first, label=4.0)  # the scale is 4
    fourth = predictor.predict(0.0)
    predictor.learn(second, label=-1.0)  # the median of 1 and 4, 2.5
    predictor.learn(fourth, label=3.0)  # shown at 4, heard at 3
    predictor.learn(third, label=0.0)  # of 0, 1, 3, 4: 2
    heard = predictor._progress.state.scores[1:5]
    assert heard.tolist() == [0.5, 1 / (1 + 1 / 2.5), 0.5, 1.0]


@pytest.mark.parametrize("answer", [{"answer": HIT}, {"answer": MISS}, {"score": 0.5}, {"loss": 0.5}])
def test_without_a_scale_an_answer_that_tells_no_value_is_refused(answer: dict[str, Any]) -> None:
    predictor = Predictor(alpha=0.1, score=ScaledResiduals())
    shown = predictor.predict(5.0)
    with pytest.raises(FeedbackError, match=r"whole line.*label=.*ScaledResiduals\(scale="):
        predictor.learn(shown, **answer)
    with pytest.raises(FeedbackError, match="whole line"):
        predictor.learn(shown, label=5.0, wrong=0.1)
    with pytest.raises(FeedbackError, match="whole line"):
        predictor.learn_batch([shown, predictor.predict(5.0)], [6.0, HIT])
    assert (predictor.rounds, predictor.open_rounds) == (0, 2)
    predictor.learn(shown, label=6.0)
    predictor.learn(predictor.predict(5.0), **answer)
    assert predictor.rounds == 2


def test_bandit_feedback_needs_a_scale_and_learns_its_width_by_hits_and_misses_then() -> None:
    with pytest.raises(FeedbackError, match=r"bandit.*ScaledResiduals\(scale="):
        Predictor(alpha=0.1, score=ScaledResiduals(), feedback="bandit")
    predictor = Predictor(alpha=0.1, score=ScaledResiduals(scale=20.0), feedback="bandit")
    residuals = np.random.default_rng(1).normal(size=3_000)
    widths = []
    for residual in residuals.tolist():
        shown = predictor.predict(0.0)
        widths.append(shown.width)
        predictor.learn(shown, HIT if residual in shown else MISS)
    assert np.median(widths[1_000:]) == pytest.approx(2 * 1.645, rel=0.2)
    assert abs(predictor.miss_rate - 0.1) < 0.02


def test_one_unbounded_interval_leaves_the_mean_of_the_others(residuals: np.ndarray) -> None:
    predictor, widths = play(ScaledResiduals(), residuals[:500])
    bounded = widths[np.isfinite(widths)]
    assert predictor.mean_size == pytest.approx(bounded.mean())
    assert predictor.median_size == pytest.approx(np.median(bounded[-200:]), rel=0.25)
    assert predictor.unbounded_share == pytest.approx(1 - bounded.size / widths.size)


@pytest.mark.parametrize(("side", "sign"), [("upper", 1.0), ("lower", -1.0)])
def test_a_one_sided_bound_is_exceeded_at_the_target_rate(
    residuals: np.ndarray, side: str, sign: float
) -> None:
    predictor, _ = play(ScaledResiduals(side=side), residuals)
    shown = predictor.predict(50.0)
    bound = shown.upper if side == "upper" else shown.lower
    assert bound == pytest.approx(50.0 + sign * 1.2816, abs=0.5)  # the normal's 90 % point
    assert abs(predictor.miss_rate - 0.1) < 200 / ROUNDS


def test_bands_are_stretched_until_they_hold(residuals: np.ndarray) -> None:
    predictor = Predictor(alpha=0.1, score=QuantileBands())
    for residual in residuals.tolist():
        shown = predictor.predict((-0.5, 0.5))
        predictor.learn(shown, label=residual)
    assert predictor.predict((-0.5, 0.5)).upper == pytest.approx(1.645, rel=0.2)
    assert abs(predictor.miss_rate - 0.1) < 200 / ROUNDS


@pytest.mark.parametrize("output", [(2.0, 1.0), (1.0, 1.0), 3.0, (1.0, math.nan), (1.0, 2.0, 3.0)])
def test_what_is_no_band_is_named(output: object) -> None:
    with pytest.raises(ScoreError):
        Predictor(alpha=0.1, score=QuantileBands()).predict(output)


@pytest.mark.parametrize("score", [QuantileBands(), ScaledResiduals(), ScaledResiduals(side="upper")])
def test_open_rounds_of_every_kind_are_saved_and_continue(score: ScaledResiduals) -> None:
    output = (1.0, 2.0) if isinstance(score, QuantileBands) else 1.5
    predictor = Predictor(alpha=0.1, score=score)
    for _ in range(5):
        predictor.learn(predictor.predict(output), label=1.75)
    shown = predictor.predict(output)
    loaded: Predictor[Interval] = Predictor.restore(predictor.dump())
    for one in (predictor, loaded):
        one.learn(shown.id, label=1.9)
        one.learn(one.predict(output), MISS)
    assert loaded.dump() == predictor.dump()


def test_the_scale_follows_the_median_of_the_first_25_residuals_and_then_stays() -> None:
    scale = Scale()
    values = []
    for residual in range(1, 41):
        scale.add(float(residual) if residual % 2 else -float(residual))
        values.append(scale.value)
    assert values[:4] == [1.0, 1.5, 2.0, 2.5]
    assert values[23:] == [12.5] + [13.0] * 16


def test_a_guess_counts_as_one_residual() -> None:
    scale = Scale.start(ScaledResiduals(scale=7.0))
    assert scale is not None
    values = [scale.value]
    for residual in (1.0, 2.0, 3.0):
        scale.add(residual)
        values.append(scale.value)
    assert values == [7.0, 4.0, 2.0, 2.5]


def test_residuals_that_are_mostly_nothing_take_the_largest_and_nothing_keeps_the_guess() -> None:
    for residuals, value in (([0.0, 0.0, 5.0], 5.0), ([0.0] * 3, 7.0)):
        scale = Scale(7.0)
        for residual in residuals:
            scale.add(residual)
        assert scale.value == value


def test_only_scaled_residuals_have_a_scale_to_find() -> None:
    assert Scale.start(Probabilities()) is None
    assert Scale.start(ScaledResiduals()) == Scale(0.0)


@pytest.mark.parametrize("zeros", [0.0, 0.5, 0.9])
def test_the_scale_is_the_median_of_all_residuals_though_few_are_kept(zeros: float) -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        residuals = np.where(rng.random(30) < zeros, 0.0, rng.normal(size=30)).tolist()
        scale = Scale()
        for known in range(1, 31):
            scale.add(residuals[known - 1])
            sizes = [abs(one) for one in residuals[: min(known, 25)]]
            assert scale.value == (median(sizes) or max(sizes))
            assert scale == Scale.unpack(scale.pack())[0]


@pytest.mark.parametrize(("known", "kept"), [(0, 0), (13, 13), (14, 13), (24, 3), (25, 1)])
def test_a_scale_is_read_from_the_bytes_it_takes_and_no_fewer(known: int, kept: int) -> None:
    scale = Scale()
    for residual in range(known):
        scale.add(float(residual))
    content = scale.pack()
    assert len(content) == 1 + 8 * kept
    assert Scale.unpack(content + b"more") == (scale, len(content))
    with pytest.raises(SnapshotError, match="cut short"):
        Scale.unpack(content[:-1])


def test_a_scale_of_more_residuals_than_there_are_is_refused() -> None:
    with pytest.raises(SnapshotError, match="cut short"):
        Scale.unpack(struct.pack("<B26d", 26, *[1.0] * 26))


def find_odds(predictor: Predictor[Interval]) -> float:
    threshold = float(predictor.distribution.thresholds[0])
    return threshold / (1.0 - threshold)


def test_one_true_value_gives_an_informed_learner_a_width_by_students_shape() -> None:
    predictor = Predictor("informed-tracker", alpha=0.1, score=ScaledResiduals())
    shown = predictor.predict(0.0)
    assert find_odds(predictor) == 1.0  # Nothing is heard before there is a scale.
    predictor.learn(shown, label=3.0)
    # Five answers of Student's shape with one degree of freedom, and one at its median: of the six
    # .1 * 6 / 7 of each may lie beyond, so that 10 / pi atan(x) = 6 (1 - .6 / 7) - 1 and x = 6.14. Bins
    # are a third of a doubling wide.
    far = math.tan((6.0 * (1.0 - 0.6 / 7.0) - 1.0) * math.pi / 10.0)
    assert 1.0 / find_odds(predictor) == pytest.approx(far, rel=2 ** (1 / 3) - 1)
    assert predictor.predict(0.0).upper == pytest.approx(3.0 * far, rel=2 ** (1 / 3) - 1)


def test_a_guess_is_heard_from_the_start_and_only_once() -> None:
    predictor = Predictor("informed-tracker", alpha=0.1, score=ScaledResiduals(scale=2.0))
    first = predictor.predict(0.0).upper
    far = math.tan(5.0 * (1.0 - 0.5 / 6.0) * math.pi / 10.0)
    assert first == pytest.approx(2.0 * far, rel=2 ** (1 / 3) - 1)
    assert [predictor.predict(0.0).upper for _ in range(30)] == [first] * 30


@pytest.mark.parametrize("size", [24, 100])
@pytest.mark.parametrize("learner", ["informed-tracker"])
def test_the_second_batch_misses_no_more_than_it_may_at_about_the_right_width(
    size: int, learner: str
) -> None:
    missed, widths = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        predictor = Predictor(learner, alpha=0.1, score=ScaledResiduals())
        for _ in range(2):
            truths = rng.normal(size=size)
            shown = predictor.predict_batch([0.0] * size)
            predictor.learn_batch(shown, truths.tolist())
        missed.append(np.mean([truth not in one for truth, one in zip(truths, shown, strict=True)]))
        widths.append(shown[0].width / (2 * 1.6449))
    # A batch's own rounds and the quantile of the one before vary alike, by .3 / sqrt(size) each.
    error = math.sqrt(2.0) * 0.3 / math.sqrt(size * 10)
    assert abs(np.mean(missed) - 0.1) < 3 * error
    assert np.mean(widths) < 1.3
