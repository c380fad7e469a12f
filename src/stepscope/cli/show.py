"""`stepscope show`: the tables of one tool."""

from __future__ import annotations

from typing import Final

import click

from stepscope.cli.options import force_option, output_option, paths_argument

__all__ = ["FORMATS", "show"]

FORMATS: Final = ("table", "json", "csv", "parquet")


@click.command("show")
@click.argument("tool")
@paths_argument
@click.option("--host", "hosts", multiple=True, metavar="H", help="Only this host.")
@click.option(
    "--compat",
    metavar="PRODUCER",
    help="The numbers that the producer itself wrote at capture time: tensorflow.",
)
@click.option(
    "--format",
    "form",
    default="table",
    show_default=True,
    metavar="|".join(FORMATS),
    help="Form of the answer; parquet needs -o.",
)
@click.option("--table", "table_name", metavar="NAME", help="Another table of TOOL.")
@click.option("--include-idle", is_flag=True, help="Count idle time as an op.")
@output_option
@force_option
def show(
    *,
    tool: str,
    paths: tuple[str, ...],
    hosts: tuple[str, ...],
    compat: str | None,
    form: str,
    table_name: str | None,
    include_idle: bool,
    output: str | None,
    force: bool,
) -> int:
    """Print what TOOL found: overview_page, framework_op_stats or kernel_stats.

    Short names work too: overview, ops, kernels. PATH is a log directory (its newest
    run), a run directory, or one file; several are several workers of one run.
    """
    from stepscope.cli import showing  # noqa: PLC0415 - help stays light

    return showing.answer(
        showing.Request(
            tool=tool,
            paths=paths,
            hosts=hosts,
            options={
                **({"compat": compat} if compat else {}),
                **({"include_idle": True} if include_idle else {}),
            },
            form=form,
            table=table_name,
            output=output,
            force=force,
        )
    )
