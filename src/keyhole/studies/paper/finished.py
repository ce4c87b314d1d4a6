"""Finished runs on disk: one file a setting, one row a run."""

import hashlib
import io
import json
import zipfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from keyhole.errors import KeyholeError
from keyhole.predictor import file as snapshot
from keyhole.studies.paper.imports import digest_sources
from keyhole.studies.paper.play import RunOutcome
from keyhole.studies.paper.settings import learner_of
from keyhole.studies.paper.sources import Pair

_PLAYS = "keyhole.studies.paper.play"


@dataclass(frozen=True)
class FinishedRuns:
    """A folder of finished runs that began with one seed."""

    folder: Path
    seed: int

    def path(self, pair: Pair) -> Path:
        """Return the file of a setting; it changes with anything that could change its runs."""
        content = json.dumps(self._header(pair), sort_keys=True)
        rule = learner_of(pair.setting).rule.choose.__module__
        key = hashlib.sha256((content + _sources(rule)).encode()).hexdigest()[:8]
        return self.folder / pair.source.name / f"{pair.setting.name}-{key}.npz"

    def _header(self, pair: Pair) -> dict[str, Any]:
        parameters = learner_of(pair.setting).parameters
        return {
            "setting": asdict(pair.setting),
            "learner": asdict(parameters),
            "source": {"name": pair.source.name, "digest": pair.source.digest},
            "seed": self.seed,
        }

    def load(self, pair: Pair) -> dict[int, RunOutcome]:
        """Return the runs that are there, by number."""
        path = self.path(pair)
        if not path.exists():
            return {}
        try:
            with np.load(path, allow_pickle=False) as arrays:
                numbers = arrays["run"].tolist()
                columns = [arrays[name] for name in RunOutcome._fields]
        except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise KeyholeError(
                f"{path} cannot be read ({error}); delete it and it is run again"
            ) from None
        rows = zip(*(column if column.ndim > 1 else column.tolist() for column in columns), strict=True)
        return dict(zip(numbers, map(RunOutcome._make, rows), strict=True))

    def save(self, pair: Pair, outcomes: dict[int, RunOutcome]) -> None:
        """Write the runs, in order, whole or not at all."""
        numbers = sorted(outcomes)
        rows = [outcomes[number] for number in numbers]
        arrays = {name: np.array([getattr(row, name) for row in rows]) for name in RunOutcome._fields}
        header = np.array(json.dumps(self._header(pair)))
        buffer = io.BytesIO()
        np.savez(buffer, header=header, run=np.array(numbers), **arrays)  # type: ignore[arg-type]
        path = self.path(pair)
        path.parent.mkdir(parents=True, exist_ok=True)
        snapshot.write(path, buffer.getvalue())


@cache
def _sources(rule: str) -> str:
    """Return what tells the code that plays a run, and its data, from any that might play another.

    A rule is imported by its name, so that its module is named beside the one that plays.
    """
    return digest_sources((_PLAYS, rule), package=Path(__file__).parents[2])
