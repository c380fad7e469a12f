"""One HTML file with the page's own code and the answers about a run.

The script `saved.js` stands before the page's: it answers what the page fetches. A
content security policy forbids all requests.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from typing import TYPE_CHECKING, Final

from stepscope.errors import BadUsage
from stepscope.serve.built import STATIC, missing_page_reason
from stepscope.serve.saved.redaction import redact_run
from stepscope.serve.saved.run_answers import collect_answers

if TYPE_CHECKING:
    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.serve.saved.run_answers import SavedRun

_SCRIPT: Final = "saved.js"
_MAIN_SCRIPT: Final = re.compile(
    r'<script type="module"[^>]* src="\./([^"]+)"></script>'
)
_STYLE: Final = re.compile(r'<link rel="stylesheet"[^>]* href="\./([^"]+)">')
_HEAD: Final = '<meta charset="utf-8" />'


def write_html(
    profile: ProfileWithTools, *, is_redacted: bool = False
) -> tuple[bytes, dict[str, str]]:
    """Return an HTML file about a profile, and what its hashes stand for.

    Raises:
        BadUsage: The page is not built.
    """
    missing = missing_page_reason(STATIC)
    if missing is not None:
        raise BadUsage(f"--format html needs the page, which is missing: {missing}")
    run = collect_answers(profile)
    if not is_redacted:
        return _render_file(run), {}
    redacted = redact_run(run)
    return _render_file(redacted.run), redacted.names


def _render_file(run: SavedRun) -> bytes:
    index = (STATIC / "index.html").read_text("utf-8")
    main, style = (_asset_text(pattern, index) for pattern in (_MAIN_SCRIPT, _STYLE))
    saved = (STATIC / _SCRIPT).read_text("utf-8")
    main, saved = (text.replace("</script", "<\\/script") for text in (main, saved))
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash_source(main)} {_hash_source(saved)}",
            f"style-src {_hash_source(style)}",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    head = f'{_HEAD}<meta http-equiv="Content-Security-Policy" content="{policy}" />'
    blocks = "".join(_data_block(name, data) for name, data in _named_data(run))
    index = _STYLE.sub(lambda _: f"<style>{style}</style>", index)
    index = _MAIN_SCRIPT.sub("", index.replace(_HEAD, head))
    scripts = f'{blocks}<script>{saved}</script><script type="module">{main}</script>'
    return index.replace("</body>", f"{scripts}</body>").encode()


def _named_data(run: SavedRun) -> list[tuple[str, bytes]]:
    joined = b",".join(
        json.dumps(address).encode() + b":" + answer
        for address, answer in run.answers.items()
    )
    named = [("answers", b"{" + joined + b"}")]
    for number, host in enumerate(run.slices):
        slices, counters = host.encode_columns()
        named += [(f"slices-{number}", slices), (f"counters-{number}", counters)]
    return named


def _data_block(name: str, data: bytes) -> str:
    """Return compressed data in an element that browsers neither run nor show."""
    text = base64.b64encode(gzip.compress(data, compresslevel=6, mtime=0)).decode()
    return f'<script type="application/octet-stream" id="data-{name}">{text}</script>'


def _asset_text(pattern: re.Pattern[str], index: str) -> str:
    found = pattern.search(index)
    if found is None:
        raise BadUsage("the built page has an unknown form. Run make web again")
    return (STATIC / found[1]).read_text("utf-8")


def _hash_source(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
