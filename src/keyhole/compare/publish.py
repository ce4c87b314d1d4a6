"""The contest as files: compare.json for programs, compare.html for people."""

from pathlib import Path

from keyhole.compare import page, record
from keyhole.compare.contest import Contest


def publish(contest: Contest, folder: Path) -> list[Path]:
    """Write both files and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {"compare.json": record.text(contest), "compare.html": page.text(contest)}
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in written]
