"""Which files a module depends on, found by following its imports through the package."""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

_CHECKING = "TYPE_CHECKING"


def digest_sources(modules: Iterable[str], *, package: Path) -> str:
    """Return what tells the sources behind some modules, and the data with them, from any others."""
    total = hashlib.sha256()
    for path in find_sources(modules, package=package):
        total.update(f"{path.relative_to(package)}\n".encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def find_sources(modules: Iterable[str], *, package: Path) -> list[Path]:
    """Return the modules' files and those of the package that they import, however indirectly.

    The package's own ``__init__`` is left out: it gives names to what is elsewhere. What lies in a
    folder ``data`` beside a module belongs to it.
    """
    found: set[Path] = set()
    waiting = [*modules]
    while waiting:
        path = _locate(waiting.pop(), package)
        if path is None or path in found or (path.parent == package and path.stem == "__init__"):
            continue
        found.add(path)
        waiting += _imports(path)
    data = {file for path in found for file in (path.parent / "data").glob("*") if file.is_file()}
    return sorted(found | data)


def _locate(module: str, package: Path) -> Path | None:
    """Return the file of a module of the package, or None."""
    first, *rest = module.split(".")
    if first != package.name:
        return None
    place = package.joinpath(*rest)
    candidates = (place / "__init__.py", place.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


def _imports(path: Path) -> Iterator[str]:
    """Yield every module that a file names in an import, and the packages they lie in."""
    for node in _statements(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            # What is imported may itself be a module: `from keyhole import grid`.
            named = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in named:
            parts = name.split(".")
            yield from (".".join(parts[:length]) for length in range(2, len(parts) + 1))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements but those that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and _CHECKING in ast.unparse(child.test):
            continue
        yield child
        yield from _statements(child)
