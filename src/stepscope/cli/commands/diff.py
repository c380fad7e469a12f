"""`stepscope diff`: what changed from one run to another."""

from __future__ import annotations

import click

from stepscope.cli.commands.options import GIVEN_PATH, force_option, output_option
from stepscope.cli.forms import REPORT_FORMS
from stepscope.cli.light_start import light_start


@click.command("diff")
@click.argument("base", metavar="BASE", type=GIVEN_PATH)
@click.argument("new", metavar="NEW", type=GIVEN_PATH)
@click.option(
    "--same-work",
    is_flag=True,
    help="State that both runs do the same work in a step, where nothing proves it.",
)
@click.option(
    "--format",
    "form",
    default="text",
    show_default=True,
    metavar="|".join(REPORT_FORMS),
    help="Form of the answer.",
)
@output_option
@force_option
def diff(
    *, base: str, new: str, same_work: bool, form: str, output: str | None, force: bool
) -> int:
    """Compare two runs: what changed, and what explains the change.

    BASE and NEW are a log directory (its newest run), a run directory, or one file of a
    supported format each. It is the answer of "report NEW --against BASE", which takes
    several workers of one run.
    """
    with light_start((base, new)):
        from stepscope.cli import report as reporting  # noqa: PLC0415 - help stays light

    return reporting.answer(
        reporting.Request(
            paths=(new,),
            against=(base,),
            same_work=same_work,
            form=form,
            output=output,
            force=force,
        )
    )
