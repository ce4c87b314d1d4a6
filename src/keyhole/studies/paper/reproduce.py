"""From a request to a folder with runs, tables, figures and the report."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from keyhole.checks import is_whole
from keyhole.errors import InvalidError
from keyhole.predictor.draws import check_seed
from keyhole.studies.engine import Engine
from keyhole.studies.paper import report, results
from keyhole.studies.paper.comparison import count_within
from keyhole.studies.paper.plan import plan
from keyhole.studies.paper.run import run
from keyhole.studies.paper.settings import IMAGENET
from keyhole.studies.paper.sources import GENERATED, MEASURED, Source, from_file


@dataclass(frozen=True)
class Request:
    """What was asked for: all that the results depend on."""

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
        """Return what the data sets come from."""
        if self.imagenet is None:
            return (GENERATED, MEASURED)
        return (GENERATED, from_file(self.imagenet, model=self.model), MEASURED)


class Finished(NamedTuple):
    """Where the report is, and how many of its comparable cells are within their tolerance."""

    report: Path
    within: int
    cells: int

    @property
    def verdict(self) -> str:
        """The outcome in a sentence."""
        if self.cells == 0:
            return "verdict: no table was asked for, so that nothing was compared with the paper"
        return f"verdict: {self.within} of {self.cells} cells are within tolerance of the paper's"


def reproduce(request: Request, folder: Path, *, engine: Engine) -> Finished:
    """Run what is missing, write tables, figures and report, and return how near they came."""
    wanted = plan(request.only, request.sources())
    if request.imagenet is not None and not wanted.sources_of(IMAGENET):
        raise InvalidError(
            f"--imagenet would change nothing: {', '.join(request.only)} is not about ImageNet"
        )
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = run(wanted.pairs, folder / "runs", runs=request.runs, seed=request.seed, engine=engine)
    found = results.Results(wanted, outcomes, request.runs, request.seed, request.command)
    results.write(found, folder)
    report.write(found, folder)
    return Finished(folder / "report.html", *count_within(found))
