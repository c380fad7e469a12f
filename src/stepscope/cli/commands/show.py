"""`stepscope show`: the tables of one tool."""

from __future__ import annotations

from typing import Final

import click

from stepscope.cli.commands.model_options import chosen_model_options, model_options
from stepscope.cli.commands.options import force_option, output_option, paths_argument

__all__ = ["FORMATS", "show"]

FORMATS: Final = ("table", "json", "csv", "parquet", "pprof")


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
    help="Form of the answer; parquet and pprof need -o, pprof is of model_views.",
)
@click.option("--table", "table_name", metavar="NAME", help="Another table of TOOL.")
@click.option(
    "--op",
    metavar="NAME",
    help="framework_op_stats: this op's calls, kernels, copies, launches, share of the "
    "step, and what dominates; kernel_stats: its kernels.",
)
@click.option(
    "--scope",
    metavar="PREFIX",
    help="The same for all ops whose names begin with this path.",
)
@click.option("--include-idle", is_flag=True, help="Count idle time as an op.")
@click.option("--memory", metavar="ID", help="memory_profile: only this memory.")
@click.option(
    "--at-ms",
    type=float,
    metavar="T",
    help="memory_profile: what was alive at this time, not at the peak.",
)
@click.option(
    "--pipeline", metavar="NAME", help="tf_data_bottleneck_analysis: this pipeline."
)
@click.option(
    "--rank",
    type=int,
    metavar="N",
    help="tf_data_bottleneck_analysis: its N-th slowest call, from 0.",
)
@model_options
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
    op: str | None,
    scope: str | None,
    include_idle: bool,
    memory: str | None,
    at_ms: float | None,
    pipeline: str | None,
    rank: int | None,
    output: str | None,
    force: bool,
    **of_model: object,
) -> int:
    """Print what TOOL found.

    Tools: overview_page (overview), input_pipeline_analyzer (input),
    framework_op_stats (ops), kernel_stats (kernels), memory_profile (memory),
    trace_viewer (trace), tf_data_bottleneck_analysis (tfdata), inference_profile
    (inference), model_views (model). PATH is a log directory (its newest run), a run
    directory, or one file; several are several workers of one run.
    """
    from stepscope.cli import show as showing  # noqa: PLC0415 - help stays light

    return showing.answer(
        showing.Request(
            tool=tool,
            paths=paths,
            hosts=hosts,
            options={
                name: value
                for name, value in {
                    "compat": compat,
                    "op": op,
                    "scope": scope,
                    "include_idle": include_idle or None,
                    "memory": memory,
                    "at_ms": at_ms,
                    "pipeline": pipeline,
                    "rank": rank,
                }.items()
                if value is not None
            }
            | chosen_model_options(of_model),
            form=form,
            table=table_name,
            output=output,
            force=force,
        )
    )
