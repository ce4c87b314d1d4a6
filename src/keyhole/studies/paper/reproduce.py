"""From a request to a folder with runs, tables, figures and the report."""

import platform
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

from keyhole import __version__
from keyhole.checks import is_whole
from keyhole.errors import InvalidError
from keyhole.predictor.draws import check_seed
from keyhole.studies.engine import Engine
from keyhole.studies.paper import figures, words
from keyhole.studies.paper.document import Block, Figure, write_bullets, write_markdown, write_page
from keyhole.studies.paper.one_run import GENERATED, IMAGENET, MEASURED, Source, from_file, learner_of
from keyhole.studies.paper.plan import NAMES, Panel, PaperTable, plan
from keyhole.studies.paper.results import (
    PaperResults,
    agreement,
    compare,
    count_within,
    finals,
    gaps,
    literal,
    order,
    range_of_lengths,
    tightness,
    write_data,
)
from keyhole.studies.paper.runs import run

_LIBRARIES = ("numpy", "numba", "joblib", "matplotlib")


@dataclass(frozen=True)
class Request:
    only: tuple[str, ...] = ()
    runs: int = 50
    seed: int = 0
    imagenet: Path | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        if not is_whole(self.runs, least=1):
            raise InvalidError(f"{self.runs!r} runs are too few; use at least 1, the paper has 50")
        check_seed(self.seed)
        if self.model is not None and self.imagenet is None:
            raise InvalidError(
                f"--model {self.model} names no outputs; give the classifier's with --imagenet FILE"
            )

    @property
    def command(self) -> str:
        """The command that asks for this; engines and folders are left out, they change nothing."""
        words = ["keyhole", "paper"]
        words += ["--only", *self.only] if self.only else []
        words += ["--runs", str(self.runs), "--seed", str(self.seed)]
        words += ["--imagenet", self.imagenet.name] if self.imagenet else []
        words += ["--model", self.model] if self.model else []
        return shlex.join(words)

    def sources(self) -> tuple[Source, ...]:
        if self.imagenet is None:
            return (GENERATED, MEASURED)
        return (GENERATED, from_file(self.imagenet, model=self.model), MEASURED)


def reproduce(request: Request, folder: Path, *, engine: Engine) -> str:
    """Run what is missing, write tables, figures and report, and say how near they came."""
    wanted = plan(request.only, request.sources())
    if request.imagenet is not None and not wanted.sources_of(IMAGENET):
        raise InvalidError(
            f"--imagenet would change nothing: {', '.join(request.only)} is not about ImageNet"
        )
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = run(wanted.pairs, folder / "runs", runs=request.runs, seed=request.seed, engine=engine)
    found = PaperResults(wanted, outcomes, request.runs, request.seed, request.command)
    write_data(found, folder)
    write_report(found, folder)
    within, cells = count_within(found)
    if cells == 0:
        return "verdict: no table was asked for, so that nothing was compared with the paper"
    return f"verdict: {within} of {cells} cells are within tolerance of the paper's"


def write_report(results: PaperResults, folder: Path) -> None:
    blocks = list(_blocks(results, folder))
    (folder / "report.md").write_text(write_markdown(blocks))
    (folder / "report.html").write_text(write_page(blocks, folder))


def _blocks(results: PaperResults, folder: Path) -> Iterator[Block]:
    yield "# Online conformal prediction with semi-bandit feedback, reproduced"
    yield from _opening(results, folder)
    if results.plan.tables:
        yield "## How near"
        yield words.AGREEMENT
        yield agreement(results)
    yield "## What the paper leaves open, and how we read it"
    yield words.OPEN
    yield write_bullets([words.READINGS[name] for name in words.READINGS if _concerns(results, name)])
    for key, group in groupby(results.plan.panels, key=lambda panel: (panel.experiment, panel.data)):
        yield from _figures(results, folder, key, tuple(group))
    for table in results.plan.tables:
        yield from _table(results, table)
    yield "## Settings"
    yield from _settings(results)
    yield "## Run it again"
    yield write_bullets(words.AGAIN)


def _concerns(results: PaperResults, data: str) -> bool:
    """Return whether a reading is of something that was run; those under "" are of everything."""
    return not data or any(source.data == data.split()[0] for source in results.plan.sources)


def _opening(results: PaperResults, folder: Path) -> Iterator[Block]:
    yield words.OPENING
    yield f"```\n{results.command}\n```"
    yield f"{results.runs} runs of every setting, the first with seed {results.seed}. It ran on:"
    yield write_bullets([_ran_on(source) for source in results.plan.sources])
    yield words.NUMBERS
    for stem, draw, caption in (
        ("figures/feedback", figures.draw_feedback, words.FEEDBACK),
        ("figures/methods", figures.draw_methods, words.METHODS),
    ):
        draw(folder / stem)
        yield Figure(stem, caption)


def _ran_on(source: Source) -> str:
    if source.data != IMAGENET:
        return f"**Airfoil**: {words.MEASUREMENTS}"
    kind = words.FILE if source.path else words.GENERATOR
    first, five = source.accuracy
    return f"**ImageNet, {source.title}**: {kind} Top-1 accuracy {first:.3f}, top-5 {five:.3f}."


def _figures(
    results: PaperResults, folder: Path, key: tuple[str, str], panels: Sequence[Panel]
) -> Iterator[Block]:
    experiment, data = key
    yield f"## Experiment {experiment[3]}, {NAMES[data]}"
    yield words.ABOUT[experiment]
    for source in results.plan.sources_of(data):
        stem = f"figures/{experiment}-{source.name}"
        figures.draw(results, panels, source, folder / stem)
        yield Figure(stem, _caption(results, panels, source))
    if not panels[0].has_boxes:
        yield finals(results, panels)
        if experiment in words.FINALS:
            yield words.FINALS[experiment]


def _caption(results: PaperResults, panels: Sequence[Panel], source: Source) -> str:
    first = panels[0].settings[0]
    ran_on = f"{NAMES[source.data]} ({source.title})"
    where = f"{ran_on}, T = {first.horizon:,}, K = {first.arms}"
    if panels[0].has_boxes:
        return (
            f"{where}: OCP-Unlock+, MC(T) of {results.runs} runs. Boxes hold the middle half with the "
            "median inside, whiskers reach the extreme runs, dashes are the targets."
        )
    return (
        f"{where}, α = {first.alpha:g}: mean over {results.runs} runs, the band from the "
        "lowest to the highest run. Dotted lines mark the rounds at which the scenario changes."
    )


def _table(results: PaperResults, table: PaperTable) -> Iterator[Block]:
    yield f"## Table {table.number}, {NAMES[table.data]} (the paper's Table {table.paper_number})"
    yield (
        f"{table.title} (experiment {table.experiment[3]}). "
        f"Selected by `--only {table.key}` or `--only {table.experiment}`."
    )
    yield compare(results, table)
    yield write_bullets(_beside(results, table))
    if table.literal_settings:
        yield "### The shift as it is written"
        yield words.LITERAL
        yield literal(results, table)
    if table.number in (1, 2):
        yield "### C_gap(T)"
        yield words.GAP
        yield gaps(results, table)
    if table.number in (3, 4):
        yield "### When OCP-Unlock+ has the tightest bound"
        yield words.TIGHTEST
        yield tightness(table)
    if table.number == 3:
        yield "### The order of the variants"
        yield words.ORDER
        yield order(results, table)


def _beside(results: PaperResults, table: PaperTable) -> list[str]:
    slack = table.number in (5, 6)
    if table.data == IMAGENET:
        return [words.MODEL, words.NEGATIVE] if slack else [words.MODEL]
    if slack:
        return [words.SHIFT, words.NEGATIVE]
    low, high = range_of_lengths(results)
    return [words.SHIFT, words.UNIT.format(low=low, high=high)]


def _settings(results: PaperResults) -> Iterator[Block]:
    shown = {pair.setting.learner: pair.setting for pair in results.plan.pairs}
    yield words.PARAMETERS
    yield write_bullets(
        [f"`{name}`: `{learner_of(setting).parameters}`" for name, setting in shown.items()]
    )
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    yield f"Keyhole {__version__}, Python {platform.python_version()}, {libraries}."
