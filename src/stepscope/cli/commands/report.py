"""`stepscope report`: where the step time went, and what to change."""

from __future__ import annotations

import click

from stepscope.cli.commands.options import (
    GIVEN_PATH,
    force_option,
    kernels_option,
    output_option,
    paths_argument,
)
from stepscope.cli.forms import REPORT_FORMS
from stepscope.cli.light_start import light_start


@click.command("report")
@paths_argument
@click.option(
    "--against",
    metavar="BASE",
    multiple=True,
    type=GIVEN_PATH,
    help="Compare with the run BASE: what changed, and whether promised gains came.",
)
@click.option(
    "--same-work",
    is_flag=True,
    help="State that both runs do the same work in a step, where nothing proves it.",
)
@click.option(
    "--synthetic",
    is_flag=True,
    help="State that PATH is the run BASE on synthetic data: does BASE wait for input?",
)
@click.option(
    "--store",
    is_flag=True,
    help="Keep the promised gains beside the log directory; answer for earlier ones.",
)
@click.option(
    "--explain",
    metavar="RULE",
    help="Say how RULE came to its verdict: definition, numbers, what was left out.",
)
@click.option(
    "--format",
    "form",
    default="text",
    show_default=True,
    metavar="|".join(REPORT_FORMS),
    help="Form of the report.",
)
@kernels_option
@output_option
@force_option
def report(
    *,
    paths: tuple[str, ...],
    against: tuple[str, ...],
    same_work: bool,
    synthetic: bool,
    store: bool,
    explain: str | None,
    form: str,
    kernels: str | None,
    output: str | None,
    force: bool,
) -> int:
    """Say where the step time of a profile went, and what to change.

    PATH is a log directory (its newest run), a run directory, or one file of a
    supported format; several PATHs are several workers of one run.
    """
    with light_start(filter(None, (*paths, *against, kernels))):
        from stepscope.cli import report as reporting  # noqa: PLC0415 - help stays light

    return reporting.answer(
        reporting.Request(
            paths=paths,
            against=against,
            same_work=same_work,
            synthetic=synthetic,
            store=store,
            explain=explain,
            form=form,
            kernels=kernels,
            output=output,
            force=force,
        )
    )
