"""What was answered can be looked at again, as columns and as a picture."""

import pickle
from collections.abc import Iterator

import numpy as np
import pytest

import keyhole
from keyhole.errors import InvalidError
from keyhole.predictor.plot import plot_decisions, plot_rounds
from keyhole.scenarios.digits import digit_guesses
from keyhole.simulation.gate_runs import simulate_gate


@pytest.fixture(autouse=True)
def _closed_figures() -> Iterator[None]:
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    mpl.use("agg")
    yield
    plt.close("all")


def _play(predictor: keyhole.Predictor[keyhole.scores.LabelSet], rounds: int) -> None:
    chances, digits = digit_guesses(rounds, seed=3)
    for row, digit in zip(chances, digits.tolist(), strict=True):
        shown = predictor.predict(row)
        predictor.learn(shown, keyhole.HIT if digit in shown else keyhole.MISS)


def test_columns_add_up_to_the_predictors_own_numbers() -> None:
    predictor = keyhole.Predictor(alpha=0.1, history=1_000, seed=7)
    _play(predictor, 300)
    kept = predictor.history()
    assert kept["round"].tolist() == list(range(300))
    assert kept["miss"].mean() == pytest.approx(predictor.miss_rate)
    assert kept["size"].mean() == pytest.approx(predictor.mean_size)


def test_batches_are_kept_in_the_order_of_their_answers() -> None:
    predictor = keyhole.Predictor(alpha=0.1, history=10, seed=7)
    shown = predictor.predict_batch([[0.9, 0.1]] * 3)
    predictor.learn_batch([shown[2], shown[0]], [0, 1])
    assert predictor.history()["round"].tolist() == [2.0, 0.0]
    assert predictor.history()["miss"].tolist() == [0.0, 1.0]


def test_no_more_rounds_are_kept_than_asked_for() -> None:
    predictor = keyhole.Predictor(alpha=0.1, history=50, seed=7)
    _play(predictor, 120)
    assert predictor.history()["round"].tolist() == list(range(70, 120))


def test_history_is_pickled_and_refused_where_there_is_none() -> None:
    predictor = keyhole.Predictor(alpha=0.1, history=50, seed=7)
    _play(predictor, 20)
    again = pickle.loads(pickle.dumps(predictor))  # noqa: S301
    assert again.history()["miss"].tolist() == predictor.history()["miss"].tolist()
    with pytest.raises(InvalidError, match="history=10_000"):
        keyhole.Predictor(alpha=0.1).history()
    with pytest.raises(InvalidError, match="whole number"):
        keyhole.Predictor(alpha=0.1, history=-1)


def test_the_picture_shows_rate_window_and_target() -> None:
    predictor = keyhole.Predictor(alpha=0.1, history=1_000, seed=7)
    _play(predictor, 400)
    top, bottom = predictor.plot(window=100)
    so_far, window, target = top.get_lines()
    assert so_far.get_ydata()[-1] == pytest.approx(predictor.miss_rate)
    assert window.get_ydata()[-1] == pytest.approx(predictor.history()["miss"][-100:].mean())
    assert target.get_ydata()[0] == 0.1
    assert bottom.get_ylabel() == "size"


def test_every_line_of_the_picture_is_named_where_no_curve_runs() -> None:
    predictor = keyhole.Predictor(alpha=0.1, history=1_000, seed=7)
    _play(predictor, 400)
    for axis in predictor.plot(window=100):
        named = axis.get_legend()
        assert len(named.get_texts()) == len(axis.get_lines())
        axis.figure.canvas.draw()
        assert named.get_window_extent().y0 >= axis.get_window_extent().y1


def test_infinite_intervals_are_left_out_of_the_mean_size() -> None:
    predictor = keyhole.Predictor(
        alpha=0.1, score=keyhole.ScaledResiduals(scale=1e-300), history=100, seed=7
    )
    for _ in range(30):
        predictor.learn(predictor.predict(0.0), label=1.0)
    _, bottom = predictor.plot(window=5)
    assert np.isfinite(bottom.get_lines()[0].get_ydata()).all()


def test_a_simulation_is_drawn_with_its_thresholds() -> None:
    run = keyhole.simulate(keyhole.make("logit-tracker", alpha=0.1), np.full(50, 0.4))
    top, bottom = run.plot()
    assert top.get_lines()[0].get_ydata()[-1] == pytest.approx(run.misses.mean())
    assert bottom.get_lines()[0].get_ydata().tolist() == run.thresholds[0].tolist()


def test_decisions_are_drawn_with_the_wrong_among_those_accepted() -> None:
    accepted = [True, False, True, True, True]
    wrong = [0.0, np.nan, 1.0, np.nan, 0.0]
    top, bottom = plot_decisions(accepted, wrong, alpha=0.05, axes=None)
    assert top.get_lines()[0].get_ydata()[-1] == pytest.approx(1 / 3)
    assert bottom.get_lines()[0].get_ydata()[-1] == pytest.approx(4 / 5)
    assert top.get_ylim()[0] == bottom.get_ylim()[0] == 0.0
    assert bottom.get_ylim()[1] == 1.0


def test_nothing_is_drawn_of_nothing() -> None:
    with pytest.raises(InvalidError, match="no answered round"):
        keyhole.Predictor(alpha=0.1, history=10).plot()


def test_groups_have_a_column_and_a_line_each() -> None:
    predictor = keyhole.Predictor(alpha=0.1, groups=["even", "never"], history=100, seed=7)
    for n in range(40):
        shown = predictor.predict([0.6, 0.4], groups=["even"] if n % 2 == 0 else [])
        predictor.learn(shown, keyhole.HIT if n % 4 else keyhole.MISS)
    kept = predictor.history()
    assert kept["group even"].tolist() == [1.0, 0.0] * 20
    assert kept["miss"][kept["group even"] > 0].mean() == predictor.groups["even"].miss_rate == 0.5
    top, _ = predictor.plot()
    (line,) = [line for line in top.lines if line.get_label() == "even, so far"]
    assert line.get_xdata().tolist() == list(range(1, 41, 2))
    assert line.get_ydata()[-1] == 0.5


def test_no_group_has_the_colour_of_another_line() -> None:
    predictor = keyhole.Predictor(alpha=0.1, groups=["a", "b"], history=50, seed=1)
    for n in range(50):
        predictor.learn(predictor.predict({"x": 0.6}, groups=["ab"[n % 2]]), label="x")
    colours = [line.get_color() for line in predictor.plot()[0].get_lines()]
    assert len(colours) == len(set(colours)) == 5  # so far, recent, two groups, the target


def test_a_simulated_gate_draws_itself_too() -> None:
    cases = np.tile([0.9, 0.95, 0.2], 20), np.zeros(60)
    run = simulate_gate(keyhole.make("gate-tracker", alpha=0.1), *cases)
    top, bottom = run.plot(window=10)
    assert top.get_lines()[0].get_ydata()[-1] == run.wrong_share
    assert bottom.get_lines()[0].get_ydata()[-1] == pytest.approx(run.accepted_share)


def test_a_batch_answered_whole_is_kept_too() -> None:
    predictor = keyhole.Predictor(alpha=0.1, history=10, seed=7)
    predictor.learn_batch(predictor.predict_batch(np.array([[0.9, 0.1]] * 3)), [0, 1, 0])
    assert predictor.history()["miss"].tolist() == [0.0, 1.0, 0.0]


def test_a_gate_keeps_its_decisions_and_draws_them() -> None:
    gate = keyhole.Gate(alpha=0.05, history=3, seed=7)
    decisions = [gate.decide(score) for score in (0.96, 0.1, 0.97, 0.98)]
    gate.learn(decisions[0], right=False)  # no longer kept
    gate.learn(decisions[3], right=False)
    gate.learn(decisions[2], right=True)
    kept = gate.history()
    assert kept["round"].tolist() == [1, 2, 3]
    assert kept["score"].tolist() == [0.1, 0.97, 0.98]
    assert kept["accepted"].tolist() == [0, 1, 1]
    assert np.isnan(kept["wrong"][0])
    assert kept["wrong"][1:].tolist() == [0.0, 1.0]
    top, bottom = gate.plot()
    assert top.lines[0].get_ydata().tolist() == [0.0, 0.5]
    assert bottom.lines[0].get_ydata()[-1] == pytest.approx(2 / 3)
    again = pickle.loads(pickle.dumps(gate))  # noqa: S301
    assert again.history()["score"].tolist() == kept["score"].tolist()
    with pytest.raises(InvalidError, match="make it with history=10_000"):
        keyhole.Gate.restore(gate.dump()).history()


def test_referred_answers_that_were_judged_are_not_wrong_among_the_accepted() -> None:
    top, _ = plot_decisions([True, False, True], [0.0, 1.0, 1.0], alpha=0.05, axes=None)
    wrong = top.get_lines()[0]
    assert (wrong.get_xdata().tolist(), wrong.get_ydata().tolist()) == ([1, 3], [0.0, 0.5])
    assert 0.05 < top.get_ylim()[1] <= 1.0


@pytest.mark.parametrize(("missed", "highest"), [([0.0] * 20, 0.2), ([1.0] * 20, 1.0)])
def test_the_picture_is_high_enough_for_the_target_and_the_rate(
    missed: list[float], highest: float
) -> None:
    top, _ = plot_rounds(missed, [1.0] * 20, alpha=0.1, sized="size", axes=None)
    assert highest < top.get_ylim()[1] <= 1.5 * max(highest, 0.2)


def test_a_window_of_unbounded_sizes_has_no_mean() -> None:
    sizes = [np.inf, np.inf, np.inf, 2.0, 4.0, 6.0]
    _, bottom = plot_rounds([0.0] * 6, sizes, alpha=0.1, sized="width", window=2, axes=None)
    dots, mean = bottom.get_lines()
    assert dots.get_xdata().tolist() == [4, 5, 6]
    assert mean.get_xdata().tolist() == [2, 3, 4, 5, 6]
    assert np.isnan(mean.get_ydata()[:2]).all()
    assert mean.get_ydata()[2:].tolist() == [2.0, 3.0, 5.0]


@pytest.mark.parametrize(("window", "length"), [(None, 10), (5, 5), (0, 1), (1_000, 100)])
def test_the_window_is_a_tenth_of_the_rounds_unless_told_and_never_longer(
    window: int | None, length: int
) -> None:
    top, bottom = plot_rounds(
        np.zeros(100), np.ones(100), alpha=0.1, sized="", window=window, axes=None
    )
    assert top.get_lines()[1].get_xdata()[0] == length
    assert top.get_lines()[1].get_label() == f"of the last {length}"
    assert bottom.get_lines()[1].get_xdata()[0] == length


def test_pictures_are_drawn_into_the_axes_given() -> None:
    from matplotlib import pyplot as plt

    _, given = plt.subplots(2)
    assert plot_rounds([0.0], [1.0], alpha=0.1, sized="size", axes=given) == tuple(given)
