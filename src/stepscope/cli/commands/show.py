"""`stepscope show`: the tables of one tool."""

from __future__ import annotations

import click

from stepscope.cli.commands.options import (
    force_option,
    kernels_option,
    output_option,
    paths_argument,
)
from stepscope.cli.commands.tool_options import chosen_options, tool_options
from stepscope.cli.forms import SHOW_FORMS
from stepscope.cli.light_start import light_start


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
    metavar="|".join(SHOW_FORMS),
    help="Form of the answer; parquet and pprof need -o, pprof is of model_views.",
)
@click.option("--table", "table_name", metavar="NAME", help="Another table of TOOL.")
@tool_options
@kernels_option
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
    kernels: str | None,
    output: str | None,
    force: bool,
    **of_tools: object,
) -> int:
    """Print what TOOL found.

    Tools: overview_page (overview), input_pipeline_analyzer (input),
    framework_op_stats (ops), kernel_stats (kernels), roofline_model (roofline),
    memory_profile (memory), pod_viewer (pod), trace_viewer (trace),
    tf_data_bottleneck_analysis (tfdata), inference_profile (inference), model_views
    (model). PATH is a log directory (its newest run), a run directory, or one file;
    several are several workers of one run.
    """
    with light_start(filter(None, (*paths, kernels))):
        from stepscope.cli import show as showing  # noqa: PLC0415 - help stays light

    return showing.answer(
        showing.Request(
            tool=tool,
            paths=paths,
            hosts=hosts,
            options=chosen_options(of_tools)
            | ({} if compat is None else {"compat": compat}),
            form=form,
            table=table_name,
            kernels=kernels,
            output=output,
            force=force,
        )
    )
