"""The page: a few files of our own, and plotly's script from its package."""

from collections.abc import AsyncIterator
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable

from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from keyhole.errors import MissingExtraError

router = APIRouter(include_in_schema=False)
_PIECE = 16_384  # Bytes sent at once: a reader that stops holds no more of a file than this.
_KINDS = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "json": "application/json",
}


@router.get("/")
def index() -> Response:
    """Return the page."""
    return _file(resources.files("keyhole.service.page") / "static" / "index.html", "no-cache")


@router.get("/docs")
def docs() -> Response:
    """Return the description of the routes."""
    return _file(resources.files("keyhole.service.page") / "static" / "docs.html", "no-cache")


@router.get("/page/{name}")
def asset(name: str) -> Response:
    """Return a file of the page."""
    folder = resources.files("keyhole.service.page") / "static"
    if name in {file.name for file in folder.iterdir()}:
        return _file(folder / name, "no-cache")
    return Response("there is no such file", 404, media_type="text/plain")


@router.get("/plotly.js")
def plotly() -> Response:
    """Return plotly's script."""
    try:
        script = resources.files("plotly") / "package_data" / "plotly.min.js"
    except ModuleNotFoundError:
        raise MissingExtraError(
            "charts need plotly; pip install 'keyhole-conformal[service]'"
        ) from None
    return _file(script, "max-age=86400")


def _file(file: Traversable, caching: str) -> Response:
    kind, content = _KINDS[file.name.rpartition(".")[2]], _read(file)
    headers = {"cache-control": caching, "content-length": str(len(content))}
    return StreamingResponse(_cut(content), media_type=f"{kind}; charset=utf-8", headers=headers)


@lru_cache(maxsize=32)
def _read(file: Traversable) -> bytes:
    return file.read_bytes()


async def _cut(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), _PIECE):
        yield content[start : start + _PIECE]
