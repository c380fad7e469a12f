"""What `stepscope report` does once its options are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.cli.forms import REPORT_FORMS
from stepscope.cli.output import check_free, deliver
from stepscope.cli.progress import progress
from stepscope.cli.terminal import draw, is_terminal, text_width
from stepscope.errors import BadUsage
from stepscope.report import to_json, to_text
from stepscope.report.compose import STAGES, compose
from stepscope.report.page import plain_text
from stepscope.session import open_profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.report.document import Document
    from stepscope.report.page import Line

__all__ = ["answer", "composed", "show"]


def answer(paths: Sequence[str], *, form: str, output: str | None, force: bool) -> int:
    """Report on one profile, and return the exit status.

    Args:
        paths: Paths as given on the command line.
        form: One of `REPORT_FORMS`.
        output: File to write; standard output where None.
        force: Whether to overwrite that file.
    """
    if form not in REPORT_FORMS:
        raise BadUsage.unknown_name("format", form, REPORT_FORMS)
    check_free(output, force=force)
    document = composed(paths)
    if form == "json":
        deliver(to_json.render_document(document), output)
    else:
        show(to_text.render(document, width=text_width()), output)
    return 0


def composed(paths: Sequence[str]) -> Document:
    """Compute everything that a report needs, and show the progress meanwhile."""
    with progress(1 + STAGES) as shown:
        shown.stage("Reading")
        return compose(open_profile(*paths), shown)


def show(lines: Sequence[Line], output: str | None = None) -> None:
    """Write a page of text; in colours on a terminal."""
    if output is None and is_terminal():
        draw(lines)
    else:
        deliver(plain_text(lines), output)
