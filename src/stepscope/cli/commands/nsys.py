"""`stepscope nsys`: record a program with Nsight Systems, then report."""

from __future__ import annotations

import click

from stepscope.cli.commands.options import GIVEN_PATH, force_option


@click.command(
    "nsys",
    # What follows the command is the command's own; `-m` and `-c` are commands too.
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
)
@click.argument("command", metavar="COMMAND…", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--range",
    "range_",
    metavar="NAME",
    help="Record while the NVTX range of this name is open, the first time.",
)
@click.option(
    "--profiler-api",
    is_flag=True,
    help="Record between the program's own calls of cudaProfilerStart and -Stop.",
)
@click.option(
    "--delay-s",
    default=0,
    show_default=True,
    metavar="S",
    type=click.IntRange(0),
    help="Seconds before recording begins.",
)
@click.option(
    "--duration-s",
    default=None,
    metavar="S",
    type=click.IntRange(1),
    help="Seconds to record; until the program ends where it is left out.",
)
@click.option(
    "--output",
    "-o",
    default="timeline",
    show_default=True,
    metavar="NAME",
    type=GIVEN_PATH,
    help="Write NAME.nsys-rep and NAME.sqlite.",
)
@force_option
@click.option("--no-report", is_flag=True, help="Record only.")
def nsys(
    *,
    command: tuple[str, ...],
    range_: str | None,
    profiler_api: bool,
    delay_s: int,
    duration_s: int | None,
    output: str,
    force: bool,
    no_report: bool,
) -> int:
    """Run COMMAND under Nsight Systems, then report.

    The exit status is that of the program.
    """
    from stepscope.cli.nsight import timeline  # noqa: PLC0415 - help stays light

    return timeline.record(
        command,
        timeline.Recording(
            range=range_,
            profiler_api=profiler_api,
            delay_s=delay_s,
            duration_s=duration_s,
            output=output,
            force=force,
            reports=not no_report,
        ),
    )
