"""The page: a few files of our own, and nothing from elsewhere."""

from collections.abc import AsyncIterator
from functools import lru_cache
from hashlib import blake2b
from importlib import resources

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

router = APIRouter(include_in_schema=False)
_PIECE = 16_384  # Bytes sent at once: a reader that stops holds no more of a file than this.
_READING = ["GET", "HEAD"]
_KINDS = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "json": "application/json",
}


@router.api_route("/", methods=_READING)
def index(request: Request) -> Response:
    return _send(request, "index.html", demo=request.app.state.demo)


@router.api_route("/docs", methods=_READING)
def docs(request: Request) -> Response:
    return _send(request, "docs.html")


@router.api_route("/page/{name}", methods=_READING)
def asset(request: Request, name: str) -> Response:
    if name in {file.name for file in _folder().iterdir()}:
        return _send(request, name)
    return Response("there is no such file", 404, media_type="text/plain")


def _send(request: Request, name: str, *, demo: bool = False) -> Response:
    """Send a file, unless the reader has it already."""
    kind, (content, tag) = _KINDS[name.rpartition(".")[2]], _read(name, demo)
    headers = {"cache-control": "no-cache", "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    headers["content-length"] = str(len(content))
    return StreamingResponse(_cut(content), media_type=f"{kind}; charset=utf-8", headers=headers)


@lru_cache(maxsize=32)
def _read(name: str, demo: bool) -> tuple[bytes, str]:  # noqa: FBT001
    """Return what a file holds, and a tag that changes with it."""
    content = (_folder() / name).read_bytes()
    if demo:
        content = content.replace(b"<body>", b"<body data-demo>")
    return content, f'"{blake2b(content, digest_size=8).hexdigest()}"'


def _folder() -> resources.abc.Traversable:
    return resources.files("keyhole.service.page").joinpath("static")


async def _cut(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), _PIECE):
        yield content[start : start + _PIECE]
