"""The first day of a stream, before and after: one section for each theme.

    python benchmarks/first_day.py [SECTION ...] [--quick]

A section is a file beside this one, ``first_day_NAME.py``, with a function ``print_tables(quick)``; its
docstring says what it prints. Without a name, every section is printed.
"""

import argparse
from importlib import import_module
from pathlib import Path

PREFIX = "first_day_"


def list_sections() -> list[str]:
    """Return the names of the sections, in the order of the alphabet."""
    files = Path(__file__).parent.glob(f"{PREFIX}*.py")
    return sorted(file.stem.removeprefix(PREFIX) for file in files)


def main() -> None:
    known = list_sections()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"one of {', '.join(known)}")
    parser.add_argument("--quick", action="store_true", help="fewer runs, shorter ones")
    given = parser.parse_args()
    for name in given.sections or known:
        if name not in known:
            parser.error(f"there is no section {name!r}; there are {', '.join(known)}")
    for name in given.sections or known:
        section = import_module(f"{PREFIX}{name}")
        print(f"# {name}: {(section.__doc__ or '').splitlines()[0]}", flush=True)
        section.print_tables(quick=given.quick)


if __name__ == "__main__":
    main()
