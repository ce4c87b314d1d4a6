"""The report: every table beside the paper's, every figure, and where the two differ and why."""

import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

from keyhole import __version__
from keyhole.studies.paper import figures, notes
from keyhole.studies.paper.comparison import (
    agreement,
    compare,
    finals,
    literal,
    order,
    range_of_lengths,
)
from keyhole.studies.paper.document import (
    Block,
    Bullets,
    Code,
    Figure,
    Heading,
    Text,
    markdown,
    page,
)
from keyhole.studies.paper.panels import CURVES, Panel
from keyhole.studies.paper.results import Results
from keyhole.studies.paper.settings import IMAGENET, learner_of
from keyhole.studies.paper.sources import Source
from keyhole.studies.paper.tables import Table

_LIBRARIES = ("numpy", "numba", "joblib", "matplotlib")


def write(results: Results, folder: Path) -> None:
    """Draw the figures and write ``report.md`` and ``report.html``."""
    blocks = list(_blocks(results, folder))
    (folder / "report.md").write_text(markdown(blocks))
    (folder / "report.html").write_text(page(blocks, folder))


def _blocks(results: Results, folder: Path) -> Iterator[Block]:
    yield Heading(1, "Online conformal prediction with semi-bandit feedback, reproduced")
    yield from _opening(results)
    if results.plan.tables:
        yield Heading(2, "How near")
        yield Text(notes.AGREEMENT)
        yield agreement(results)
    yield Heading(2, "What the paper leaves open, and how we read it")
    yield Text(notes.OPEN)
    yield Bullets([notes.READINGS[name] for name in notes.READINGS if _concerns(results, name)])
    for key, group in groupby(results.plan.panels, key=lambda panel: (panel.experiment, panel.data)):
        yield from _figures(results, folder, key, tuple(group))
    for table in results.plan.tables:
        yield from _table(results, table)
    yield Heading(2, "Settings")
    yield from _settings(results)
    yield Heading(2, "Run it again")
    yield Bullets(notes.AGAIN)


def _concerns(results: Results, data: str) -> bool:
    """Return whether a reading is of something that was run; those under "" are of everything."""
    return not data or any(source.data == data.split()[0] for source in results.plan.sources)


def _opening(results: Results) -> Iterator[Block]:
    yield Text(notes.OPENING)
    yield Code(results.command)
    yield Text(f"{results.runs} runs of every setting, the first with seed {results.seed}. It ran on:")
    yield Bullets([_ran_on(source) for source in results.plan.sources])
    yield Text(notes.NUMBERS)


def _ran_on(source: Source) -> str:
    if source.data != IMAGENET:
        return f"**Airfoil**: {notes.AIRFOIL}"
    kind = notes.FILE if source.path else notes.GENERATED
    first, five = source.accuracy
    return f"**ImageNet, {source.title}**: {kind} Top-1 accuracy {first:.3f}, top-5 {five:.3f}."


def _figures(
    results: Results, folder: Path, key: tuple[str, str], panels: Sequence[Panel]
) -> Iterator[Block]:
    experiment, data = key
    yield Heading(2, f"{notes.EXPERIMENTS[experiment]}, {notes.DATA[data]}")
    yield Text(notes.ABOUT[experiment])
    for source in results.plan.sources_of(data):
        stem = f"figures/{experiment}-{source.name}"
        figures.draw(results, panels, source, folder / stem)
        yield Figure(stem, _caption(results, panels, source))
    if panels[0].kind == CURVES:
        yield finals(results, panels)
        note = notes.FINALS.get(experiment)
        if note:
            yield Text(note)


def _caption(results: Results, panels: Sequence[Panel], source: Source) -> str:
    first = panels[0].settings[0]
    ran_on = f"{notes.DATA[source.data]} ({source.title})"
    where = f"{ran_on}, T = {first.horizon:,}, K = {first.arms}"
    if panels[0].kind == CURVES:
        return (
            f"{where}, α = {first.alpha:g}: mean over {results.runs} runs, the band from the "
            "lowest to the highest run. Dotted lines mark the rounds at which the scenario changes."
        )
    return (
        f"{where}: OCP-Unlock+, MC(T) of {results.runs} runs. Boxes hold the middle half with the "
        "median inside, whiskers reach the extreme runs, dashes are the targets."
    )


def _table(results: Results, table: Table) -> Iterator[Block]:
    yield Heading(
        2, f"Table {table.number}, {notes.DATA[table.data]} (the paper's Table {table.paper_number})"
    )
    yield Text(
        f"{table.title} (experiment {table.experiment[3]}). "
        f"Selected by `--only {table.key}` or `--only {table.experiment}`."
    )
    yield compare(results, table)
    yield Bullets(_beside(results, table))
    if table.literal_settings:
        yield Heading(3, "The shift as it is written")
        yield Text(notes.LITERAL)
        yield literal(results, table)
    if table.number == 3:
        yield Heading(3, "The order of the variants")
        yield Text(notes.ORDER)
        yield order(results, table)


def _beside(results: Results, table: Table) -> list[str]:
    """Return what must be said next to a table."""
    slack = table.number in (5, 6)
    if table.data == IMAGENET:
        return [notes.MODEL, notes.NEGATIVE] if slack else [notes.MODEL]
    if slack:
        return [notes.SHIFT, notes.NEGATIVE]
    low, high = range_of_lengths(results)
    return [notes.SHIFT, notes.UNIT.format(low=low, high=high)]


def _settings(results: Results) -> Iterator[Block]:
    shown = {pair.setting.learner: pair.setting for pair in results.plan.pairs}
    yield Text(notes.PARAMETERS)
    yield Bullets([f"`{name}`: `{learner_of(setting).parameters}`" for name, setting in shown.items()])
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    yield Text(f"Keyhole {__version__}, Python {platform.python_version()}, {libraries}.")
