"""`stepscope doctor`: what can be recorded here, or what a recording lacks."""

from __future__ import annotations

import click

__all__ = ["doctor"]


@click.command("doctor")
@click.argument("path", required=False, type=click.Path(path_type=str))
@click.option(
    "--logdir",
    default="stepscope-logs",
    show_default=True,
    metavar="DIR",
    type=click.Path(path_type=str),
    help="Where a recording would be written.",
)
@click.option(
    "--format",
    "form",
    default="text",
    show_default=True,
    type=click.Choice(["text", "json"]),
    help="For people, or for programs.",
)
def doctor(*, path: str | None, logdir: str, form: str) -> int:
    """Say what can be recorded here, what cannot, and what mends it.

    With PATH: what the recording of that log directory, run or file lacks, and why.
    The exit status is 1 where something cannot be recorded at all, or was lost.
    """
    from stepscope.cli import doctor as examining  # noqa: PLC0415 - help stays light

    return examining.answer(path, logdir=logdir, form=form)
