"""The board: how entrants rank, how other libraries play, and what is kept and written."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from keyhole import GATES, LEARNERS
from keyhole.cli import main
from keyhole.errors import InvalidError, KeyholeError
from keyhole.scenarios.airfoil import airfoil
from keyhole.simulation import Channel
from keyhole.studies.board import board as boards
from keyhole.studies.board import page
from keyhole.studies.board.board import (
    FIRST_DAY,
    GATED,
    LONG_RUN,
    SCENARIOS,
    SETS,
    Board,
    BoardCell,
    Size,
)
from keyhole.studies.board.peers import PEERS, PeerRule

DOCS = Path(__file__).parents[3] / "docs"
SMALL = Size(rounds=300, runs=2, gate_runs=2, first=100)


def make_played(entrant: str, scenario: str, rate: float, size: float) -> BoardCell:
    both = (LONG_RUN, FIRST_DAY)
    return BoardCell(
        entrant, scenario, "hit or miss", "", {part: [rate, rate] for part in both},
        {part: [size, size] for part in both},
    )  # fmt: skip


def test_who_keeps_the_promise_most_often_comes_first_and_then_who_is_smallest() -> None:
    table = Board(
        SMALL,
        (
            make_played("large", "digits", 0.09, 2.0), make_played("large", "airfoil", 0.1, 2.0),
            make_played("small", "digits", 0.1, 1.0), make_played("small", "airfoil", 0.1, 1.5),
            make_played("once", "digits", 0.1, 0.5), make_played("once", "airfoil", 0.2, 0.5),
            make_played("partly", "airfoil", 0.1, 0.4),
        ),
    )  # fmt: skip
    ranked = table.rank(LONG_RUN, SETS)
    assert [one.entrant for one in ranked] == ["small", "large", "partly", "once"]
    assert [(one.kept, one.ran, one.scenarios) for one in ranked] == [
        (2, 2, 2), (2, 2, 2), (1, 1, 2), (1, 2, 2),
    ]  # fmt: skip
    assert ranked[0].size.mean == pytest.approx(math.sqrt(1.5))
    assert (ranked[3].worst.mean, ranked[3].worst_on) == (0.2, "airfoil")
    assert [one.entrant for one in table.of_scenario("airfoil", LONG_RUN)] == [
        "partly", "small", "large", "once",
    ]  # fmt: skip


def test_of_gates_the_one_that_accepts_most_comes_first_among_equals() -> None:
    table = Board(
        SMALL,
        (
            make_played("shy", "gate-digits", 0.05, 0.2),
            make_played("bold", "gate-digits", 0.1, 0.9),
            make_played("rash", "gate-digits", 0.3, 1.5),
        ),
    )
    assert [one.entrant for one in table.rank(LONG_RUN, GATED)] == ["bold", "shy", "rash"]
    assert [one.entrant for one in table.of_scenario("gate-digits", LONG_RUN)] == [
        "bold",
        "shy",
        "rash",
    ]


def test_a_mean_over_scenarios_has_its_error_over_runs() -> None:
    first = replace(make_played("a", "digits", 0.1, 1.0), rates={LONG_RUN: [0.1, 0.3]})
    second = replace(make_played("a", "airfoil", 0.1, 1.0), rates={LONG_RUN: [0.1, 0.1]})
    (one,) = Board(SMALL, (first, second)).rank(LONG_RUN, SETS)
    assert one.rate.mean == pytest.approx(0.15)
    assert one.rate.error == pytest.approx(np.std([0.1, 0.2], ddof=1) / math.sqrt(2))


class Recorder:
    """A peer that keeps one interval and writes down what it is told."""

    told: list[list[float]]

    def __init__(self, lower: float, upper: float) -> None:
        self.ends, self.told = (lower, upper), []

    def ask(self) -> tuple[float, float]:
        return self.ends

    def learn(self, errors: list[float]) -> None:
        self.told.append(errors)


def enter(monkeypatch: pytest.MonkeyPatch, peer: Recorder) -> None:
    monkeypatch.setitem(PEERS, "recorder", PeerRule("numpy", labels=True, make=lambda _alpha: peer))


def test_a_peer_is_judged_by_the_errors_of_the_forecast_and_the_length_of_its_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    enter(monkeypatch, Recorder(-0.1, 0.2))
    played = boards.play("recorder", SCENARIOS["airfoil"], SMALL)
    drawn = [airfoil(300, seed=seed) for seed in (0, 1)]
    errors = [(one.outcomes - one.centres) / 18.5 for one in drawn]
    for part, rounds in ((FIRST_DAY, slice(0, 100)), (LONG_RUN, slice(100, 300))):
        missed = [((own[rounds] < -0.1) | (own[rounds] > 0.2)).mean() for own in errors]
        assert played.rates[part] == pytest.approx(missed)
    best = [2 * 18.5 * (1 - np.partition(one.scores, 30)[30]) for one in drawn]
    assert played.sizes[LONG_RUN] == pytest.approx([0.3 * 18.5 / one for one in best], rel=1e-4)
    assert played.told == "label always"


def test_a_peer_hears_in_each_round_what_has_come_back_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Recorder(-1.0, 0.3)
    enter(monkeypatch, peer)
    one_run = replace(SMALL, runs=1)
    late = replace(SCENARIOS["digits"], channel=Channel(delay=7))
    played = boards.play("recorder", late, one_run)
    assert [len(told) for told in peer.told] == [1] * 293
    told = np.concatenate(peer.told)
    assert played.rates[FIRST_DAY] == pytest.approx([(told[:100] > 0.3).mean()])
    peer.told.clear()
    boards.play("recorder", replace(SCENARIOS["airfoil"], channel=Channel(batch=24)), one_run)
    assert [len(told) for told in peer.told] == [24] * 12
    peer.told.clear()
    boards.play("recorder", SCENARIOS["digits-sparse"], one_run)
    assert 10 <= len(peer.told) <= 55  # one in ten of 300, within five standard errors


def test_an_adversary_watches_a_peer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    enter(monkeypatch, Recorder(-0.4, 0.4))
    played = boards.play("recorder", SCENARIOS["just-below"], SMALL)
    assert played.rates == {LONG_RUN: [1.0, 1.0]}
    assert all(math.isnan(size) for size in played.sizes[LONG_RUN])


def test_a_library_for_intervals_says_why_it_cannot_play_labels() -> None:
    played = boards.play("MAPIE ACI", SCENARIOS["digits"], SMALL)
    assert played.rates == {}
    assert "no use for the score of a label" in str(played.refusal)


def test_learners_that_need_every_label_play_and_are_marked() -> None:
    assert boards.play("dtaci", SCENARIOS["airfoil"], SMALL).told == "label always"
    assert boards.play("informed-tracker", SCENARIOS["airfoil"], SMALL).told == "label if hit"
    assert boards.play("kt", SCENARIOS["airfoil"], SMALL).told == "hit or miss"


def test_a_finished_cell_is_not_played_again_unless_its_code_has_changed(tmp_path: Path) -> None:
    entered = [SCENARIOS["airfoil"]]
    first = boards.play_board(["kt"], entered, SMALL, tmp_path).played[0]
    (path,) = tmp_path.rglob("*.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "rates": {LONG_RUN: [0.5, 0.5]}}))
    (kept,) = boards.play_board(["kt"], entered, SMALL, tmp_path).played
    assert kept.rates == {LONG_RUN: [0.5, 0.5]}
    path.write_text(json.dumps({**json.loads(path.read_text()), "key": "older code"}))
    assert boards.play_board(["kt"], entered, SMALL, tmp_path).played == (first,)
    path.write_text("{")
    with pytest.raises(KeyholeError, match="delete it and it is played again"):
        boards.play_board(["kt"], entered, SMALL, tmp_path)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Board:
    """A small run of a learner, a gate's rule and a library that is installed here."""
    names = ["informed-tracker", "gate-tracker", "river jackknife"]
    entered = ["airfoil", "airfoil-sparse", "day-ahead", "just-below", "gate-drifting"]
    folder = tmp_path_factory.mktemp("board")
    return boards.play_board(names, [SCENARIOS[name] for name in entered], SMALL, folder)


def test_the_page_holds_what_its_record_holds(tmp_path: Path) -> None:
    written = tmp_path / "board.md"
    written.write_text((DOCS / "board.md").read_text())
    page.fill_page(boards.read_record(DOCS / "board.json"), written)
    assert written.read_text() == (DOCS / "board.md").read_text()


def test_the_page_is_of_the_full_size_and_everyone_is_on_it() -> None:
    full = boards.read_record(DOCS / "board.json")
    assert full.size == boards.FULL
    pairs = {(one.entrant, one.scenario) for one in full.played}
    rules = {**LEARNERS, **GATES}  # less those that other tests have registered
    ours = [name for name, rule in rules.items() if rule.choose.__module__.startswith("keyhole.")]
    every_one_of_ours = boards.list_pairs(ours, SCENARIOS.values())
    assert {(name, one.name) for name, one in every_one_of_ours} <= pairs
    assert {entrant for entrant, _ in pairs} == {*ours, *PEERS}
    shown = (DOCS / "board.md").read_text()
    assert all(
        f"{name} has not been played on" in shown
        for name, one in boards.list_pairs(PEERS, SCENARIOS.values())
        if (name, one.name) not in pairs
    )


def test_the_command_builds_the_page_from_a_small_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built, docs = tmp_path / "board.md", (DOCS / "board.md").read_text()
    built.write_text(docs)
    played = [
        "--entrants",
        "informed-tracker",
        "river jackknife",
        "--scenarios",
        "airfoil",
        "just-below",
    ]
    written = ["--out", str(tmp_path), "--page", str(built)]
    assert main(["bench", "--quick", *played, *written]) == 0
    assert capsys.readouterr().out.endswith(f"{tmp_path / 'board.html'}\n{built}\n")
    record = boards.read_record(tmp_path / "board.json")
    assert (record.size, len(record.played)) == (boards.QUICK, 4)
    fragment = page.write_fragment(record)
    assert fragment in built.read_text()
    assert fragment not in docs
    assert built.read_text().split("\n\n")[:4] == docs.split("\n\n")[:4]


def test_a_small_run_has_the_form_of_the_page(small: Board) -> None:
    full = {(one.entrant, one.scenario): one for one in boards.read_record(DOCS / "board.json").played}
    for one in small.played:
        shown = full.get((one.entrant, one.scenario), one)
        assert one.rates.keys() == shown.rates.keys()
        assert one.sizes.keys() == shown.sizes.keys()
        assert (one.told, one.refusal) == (shown.told, shown.refusal)
    heads = [part for part in page.write_fragment(small).splitlines() if part.startswith("<h")]
    every = [part for part in (DOCS / "board.md").read_text().splitlines() if part.startswith("<h")]
    assert len(heads) >= 10
    assert heads == [part for part in every if part in heads]


def test_terminal_tables_fit_eighty_columns(small: Board) -> None:
    lines = list(page.write_text(small))
    assert max(map(len, lines)) <= 80
    assert "Sets and intervals: long run" in lines
    assert any(line.startswith("river jackknife †") for line in lines)
    full = page.write_text(boards.read_record(DOCS / "board.json"))
    assert max(map(len, full)) <= 80


def test_a_record_is_read_as_it_was_written(small: Board, tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    boards.write_record(small, path)
    assert repr(boards.read_record(path)) == repr(small)
    path.write_text(path.read_text().replace('"version": 1', '"version": 0'))
    with pytest.raises(InvalidError, match="version 0 of the board, not 1"):
        boards.read_record(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--entrants", "nobody"], "there is no 'nobody' to play here"),
        (["--scenarios", "nowhere"], "the board has no scenario 'nowhere'"),
        (["--entrants", "gate-split", "--scenarios", "digits"], "plays any of these scenarios"),
        (["--show", str(DOCS / "board.json"), "--page", str(DOCS / "index.md")], "lacks the lines"),
    ],
)
def test_the_command_says_what_it_cannot_do(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_command_shows_a_record_without_playing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--show", str(DOCS / "board.json")]) == 0
    assert "Gates: first day" in capsys.readouterr().out
