"""Write into the pages what their snippets print now; look at the difference before you commit it.

python -m tests.docs.refresh README.md docs/howto/late.md
"""

import os
import sys
import tempfile
from pathlib import Path

from tests.docs.snippets import PAGES, find_snippets, is_as_said, run


def refresh(page: Path) -> int:
    """Replace every text block that is not as printed; return how many there were."""
    text, changed = page.read_text(), 0
    names: dict[str, object] = {"__name__": "snippet"}
    for snippet in find_snippets(page):
        printed = run(snippet, page, names)
        said = snippet.printed
        if said is None or is_as_said(printed, said):
            continue
        block = f"```python\n{snippet.code}```\n\n```text\n"
        text = text.replace(f"{block}{said}```", f"{block}{printed.rstrip()}\n```")
        changed += 1
    page.write_text(text)
    return changed


if __name__ == "__main__":
    pages = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    os.environ["MPLBACKEND"] = "agg"
    os.chdir(tempfile.mkdtemp())
    for path in pages:
        sys.stdout.write(f"{path.name}: {refresh(path)} blocks changed\n")
