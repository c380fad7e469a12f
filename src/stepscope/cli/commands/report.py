"""`stepscope report`: where the step time went, and what to change."""

from __future__ import annotations

import click

from stepscope.cli.commands.options import force_option, output_option, paths_argument
from stepscope.cli.forms import REPORT_FORMS
from stepscope.cli.light_start import light_start

__all__ = ["report"]


@click.command("report")
@paths_argument
@click.option(
    "--format",
    "form",
    default="text",
    show_default=True,
    metavar="|".join(REPORT_FORMS),
    help="Form of the report.",
)
@output_option
@force_option
def report(
    *, paths: tuple[str, ...], form: str, output: str | None, force: bool
) -> int:
    """Say where the step time of a profile went, and what to change.

    PATH is a log directory (its newest run), a run directory, or one file of a
    supported format; several PATHs are several workers of one run.
    """
    with light_start():
        from stepscope.cli import report as reporting  # noqa: PLC0415 - help stays light

    return reporting.answer(paths, form=form, output=output, force=force)
