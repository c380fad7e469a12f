"""What `stepscope report` does once its options are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.cli.commands.report import FORMATS
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

    from stepscope.report.page import Line

__all__ = ["answer"]


def answer(
    paths: Sequence[str],
    *,
    form: str,
    output: str | None,
    force: bool,
    after: Sequence[Line] = (),
) -> int:
    """Report on one profile; the exit status.

    Args:
        paths: As the command line gave them.
        form: One of `FORMATS`.
        output: File to write; standard output where None.
        force: Overwrite that file.
        after: Lines that a report in text ends with.
    """
    if form not in FORMATS:
        raise BadUsage.unknown_name("format", form, FORMATS)
    check_free(output, force=force)
    with progress(1 + STAGES) as shown:
        shown.stage("Reading")
        document = compose(open_profile(*paths), shown)
    if form == "json":
        deliver(to_json.render_document(document), output)
        return 0
    lines = [*to_text.render(document, width=text_width()), *after]
    if output is None and is_terminal():
        draw(lines)
    else:
        deliver(plain_text(lines), output)
    return 0
