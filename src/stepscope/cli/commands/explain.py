"""`stepscope explain`: who owns a stretch of idle time."""

from __future__ import annotations

import click

from stepscope.cli.commands.options import force_option, output_option, paths_argument
from stepscope.cli.forms import REPORT_FORMS
from stepscope.cli.light_start import light_start


@click.command("explain")
@paths_argument
@click.option(
    "--at",
    metavar="TIME",
    help="Explain the gap of the device that holds TIME (1.2345s, 12ms, 850us).",
)
@click.option("--from", "begin", metavar="TIME", help="Explain the time from TIME on …")
@click.option("--to", "end", metavar="TIME", help="… to TIME.")
@click.option("--host", metavar="H", help="On this host; by default the first one.")
@click.option(
    "--device",
    type=int,
    metavar="N",
    help="Of this device; by default the one that waits longest at TIME.",
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
def explain(
    *,
    paths: tuple[str, ...],
    at: str | None,
    begin: str | None,
    end: str | None,
    host: str | None,
    device: int | None,
    form: str,
    output: str | None,
    force: bool,
) -> int:
    """Say who owns a stretch of idle time, and what ran meanwhile.

    TIME counts from the start of the profile, as in the timeline. Give --at for the gap
    around an instant, or --from and --to. Without a device it is said whose time that
    of the step threads is.
    """
    with light_start(paths):
        from stepscope.cli.explaining import gap  # noqa: PLC0415 - help stays light

    return gap.answer(
        gap.Request(
            paths=paths,
            at=at,
            begin=begin,
            end=end,
            host=host,
            device=device,
            form=form,
            output=output,
            force=force,
        )
    )
