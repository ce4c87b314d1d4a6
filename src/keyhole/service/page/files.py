"""The page: a few files of our own, and plotly's script from its package."""

from collections.abc import AsyncIterator
from functools import lru_cache
from importlib import resources

from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from keyhole.errors import MissingExtraError

router = APIRouter(include_in_schema=False)
_OURS = ("keyhole.service.page", "static")
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
    return _send(*_OURS, "index.html", caching="no-cache")


@router.get("/docs")
def docs() -> Response:
    return _send(*_OURS, "docs.html", caching="no-cache")


@router.get("/page/{name}")
def asset(name: str) -> Response:
    if name in {file.name for file in resources.files(_OURS[0]).joinpath(_OURS[1]).iterdir()}:
        return _send(*_OURS, name, caching="no-cache")
    return Response("there is no such file", 404, media_type="text/plain")


@router.get("/plotly.js")
def plotly() -> Response:
    try:
        return _send("plotly", "package_data", "plotly.min.js", caching="max-age=86400")
    except ModuleNotFoundError:
        raise MissingExtraError(
            "charts need plotly; pip install 'keyhole-conformal[service]'"
        ) from None


def _send(package: str, folder: str, name: str, *, caching: str) -> Response:
    kind, content = _KINDS[name.rpartition(".")[2]], _read(package, folder, name)
    headers = {"cache-control": caching, "content-length": str(len(content))}
    return StreamingResponse(_cut(content), media_type=f"{kind}; charset=utf-8", headers=headers)


@lru_cache(maxsize=32)
def _read(package: str, folder: str, name: str) -> bytes:
    return (resources.files(package) / folder / name).read_bytes()


async def _cut(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), _PIECE):
        yield content[start : start + _PIECE]
