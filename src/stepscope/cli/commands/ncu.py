"""`stepscope ncu`: measure the kernels of a program with Nsight Compute."""

from __future__ import annotations

import click

from stepscope.cli.commands.options import GIVEN_PATH, force_option


@click.command(
    "ncu",
    # What follows the command is the command's own; `-m` and `-c` are commands too.
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
)
@click.argument("command", metavar="COMMAND…", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--beside",
    metavar="PATH",
    type=GIVEN_PATH,
    help="A recording of the same program: report on it with what was measured.",
)
@click.option(
    "--op", metavar="NAME", help="Only kernels that this op launches in --beside PATH."
)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="REGEX",
    help="Only kernels whose function's name matches as a whole.",
)
@click.option(
    "--range",
    "range_",
    metavar="NAME",
    help="Only kernels launched inside the NVTX range of this name.",
)
@click.option(
    "--profiler-api",
    is_flag=True,
    help="Measure between the program's own calls of cudaProfilerStart and -Stop.",
)
@click.option(
    "--skip",
    default=0,
    show_default=True,
    metavar="N",
    type=click.IntRange(0),
    help="Launches of these kernels before the first that is measured.",
)
@click.option(
    "--count",
    default=100,
    show_default=True,
    metavar="N",
    type=click.IntRange(1),
    help="Launches to measure; each one is run many times.",
)
@click.option(
    "--set",
    "sections",
    default="full",
    show_default=True,
    metavar="NAME",
    help="Sections to measure: basic, full, roofline, or another set of ncu.",
)
@click.option(
    "--output",
    "-o",
    default="kernels",
    show_default=True,
    metavar="NAME",
    type=GIVEN_PATH,
    help="Write NAME.ncu-rep and NAME.csv.",
)
@force_option
def ncu(
    *,
    command: tuple[str, ...],
    beside: str | None,
    op: str | None,
    kernels: tuple[str, ...],
    range_: str | None,
    profiler_api: bool,
    skip: int,
    count: int,
    sections: str,
    output: str,
    force: bool,
) -> int:
    """Run COMMAND under Nsight Compute, and keep what it measures of kernels.

    Each kernel is run again and again, alone: the program takes much longer, and its
    times mean nothing. The exit status is that of the program.
    """
    from stepscope.cli.nsight import kernels as measuring  # noqa: PLC0415 - help stays light

    return measuring.measure(
        command,
        measuring.Measuring(
            beside=beside,
            op=op,
            kernels=kernels,
            range=range_,
            profiler_api=profiler_api,
            skip=skip,
            launches=count,
            sections=sections,
            output=output,
            force=force,
        ),
    )
