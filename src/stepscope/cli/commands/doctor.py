"""`stepscope doctor`: what can be recorded here, or what a recording lacks."""

from __future__ import annotations

import click

from stepscope.cli.commands.options import GIVEN_PATH
from stepscope.errors import BadUsage

#: Between our arguments and those of a program.
_PROGRAM = "--"


class _WithProgram(click.Command):
    """Takes what follows `--` for a program and its arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the program off the arguments; an option of its own is none of ours."""
        if _PROGRAM in args:
            place = args.index(_PROGRAM)
            ctx.meta[_PROGRAM] = tuple(args[place + 1 :])
            args = args[:place]
        return super().parse_args(ctx, args)


@click.command("doctor", cls=_WithProgram, options_metavar="[OPTIONS]")
@click.argument(
    "path",
    metavar="[PATH | -- COMMAND…]",
    required=False,
    type=GIVEN_PATH,
)
@click.option(
    "--logdir",
    default="stepscope-logs",
    show_default=True,
    metavar="DIR",
    type=GIVEN_PATH,
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
@click.pass_context
def doctor(context: click.Context, *, path: str | None, logdir: str, form: str) -> int:
    """Say what can be recorded here, what cannot, and what mends it.

    With PATH: what the recording of that log directory, run or file lacks, and why.
    The exit status is 1 where something cannot be recorded at all, or was lost.

    With -- COMMAND: how large recordings of that program are, and how much slower it is
    meanwhile, from one run to its end. The exit status is the program's own.
    """
    from stepscope.cli import doctor as examining  # noqa: PLC0415 - help stays light

    command = context.meta.get(_PROGRAM)
    if command is not None:
        if path is not None:
            raise BadUsage(
                f"{path} and a program: the doctor looks at one of them; leave the "
                "other out."
            )
        return examining.answer_of_program(command, form=form)
    return examining.answer(path, logdir=logdir, form=form)
