"""The page about a profile inside a notebook: a frame that needs no server."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from stepscope.serve.built import missing_page_reason
from stepscope.serve.saved.html_file import write_html

if TYPE_CHECKING:
    from stepscope.analysis.tools import ProfileWithTools


def frame_of_page(profile: ProfileWithTools) -> str | None:
    """Return the element that shows the page; None if the page is not built.

    The scripts of the page cannot reach the notebook.
    """
    if missing_page_reason() is not None:
        return None
    html, _ = write_html(profile)
    return (
        '<iframe sandbox="allow-scripts allow-downloads" title="stepscope" '
        'style="width: 100%; height: 45em; border: 1px solid #8888" '
        f'srcdoc="{escape(html.decode())}"></iframe>'
    )
