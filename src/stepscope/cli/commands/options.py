"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Final

import click

__all__ = ["force_option", "kernels_option", "output_option", "paths_argument"]

paths_argument: Final = click.argument(
    "paths", metavar="PATH…", nargs=-1, required=True, type=click.Path(path_type=str)
)
output_option: Final = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=str),
    metavar="FILE",
    help="Write into FILE.",
)
force_option: Final = click.option(
    "--force", is_flag=True, help="Overwrite FILE where it exists."
)
kernels_option: Final = click.option(
    "--kernels",
    metavar="TABLE",
    type=click.Path(path_type=str),
    help="Metrics of the same program's kernels: a table or report of Nsight Compute.",
)
