"""Files of the built page, read at server start, so that no request opens a path."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

import msgspec
from werkzeug.wrappers import Response

from stepscope.serve.built import STATIC, missing_page_reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from werkzeug.wrappers import Request

_HERE: Final = Path(__file__).parent
_INDEX: Final = "index.html"
#: End of the name of a file that never changes: the bundler's hash of its content.
_HASHED: Final = re.compile(r"-[A-Za-z0-9_-]{8,}\.[a-z0-9]+(\.map)?\Z")
_FOREVER: Final = "public, max-age=31536000, immutable"
_ASK_FIRST: Final = "no-cache"
#: Media types of file endings that this machine's own table may lack or have wrong.
_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".map": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".woff2": "font/woff2",
}


class File(msgspec.Struct, frozen=True, kw_only=True):
    """One file as it is sent."""

    content: bytes
    media_type: str
    caching: str
    tag: str


def page_files(folder: Path = STATIC) -> dict[str, File]:
    """Return the built page as address → file; if it is missing, a page that says why.

    Symbolic links in the folder are ignored.
    """
    files = {
        path.relative_to(folder).as_posix(): _read_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
    if _INDEX not in files:
        page = Template((_HERE / "unbuilt.html").read_text("utf-8"))
        text = page.substitute(reason=escape(missing_page_reason(folder) or ""))
        files[_INDEX] = _make_file(text.encode(), ".html", _ASK_FIRST)
    files["plugin.js"] = _read_file(_HERE / "plugin.js")
    files[""] = files[_INDEX]
    return files


def answer_file(
    files: Mapping[str, File], path: str, request: Request
) -> Response | None:
    """Answer with the file at an address; None if the address has no file."""
    file = files.get(path)
    if file is None:
        return None
    response = Response(file.content, content_type=file.media_type)
    response.headers["Cache-Control"] = file.caching
    response.set_etag(file.tag)
    response.make_conditional(request)
    return response


def _read_file(path: Path) -> File:
    caching = _FOREVER if _HASHED.search(path.name) else _ASK_FIRST
    return _make_file(path.read_bytes(), path.suffix, caching)


def _make_file(content: bytes, suffix: str, caching: str) -> File:
    kind = _TYPES.get(suffix) or mimetypes.guess_type(f"a{suffix}", strict=True)[0]
    kind = kind or "application/octet-stream"
    if kind.startswith("text/"):
        kind = f"{kind}; charset=utf-8"
    return File(
        content=content,
        media_type=kind,
        caching=caching,
        tag=hashlib.sha256(content).hexdigest()[:32],
    )
