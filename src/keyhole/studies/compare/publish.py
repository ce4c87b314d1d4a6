"""The contest as files: compare.json for programs, compare.html for people."""

from pathlib import Path

from keyhole.studies.compare import page, record
from keyhole.studies.compare.contest import Contest
from keyhole.studies.compare.late import LateContests


def write_record(contest: Contest, folder: Path, *, lateness: LateContests | None = None) -> Path:
    """Write the JSON file and return its path."""
    return _write(folder / "compare.json", record.text(contest, lateness))


def write_page(contest: Contest, folder: Path, *, lateness: LateContests | None = None) -> Path:
    """Write the page and return its path; it needs plotly."""
    return _write(folder / "compare.html", page.text(contest, lateness))


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
