"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Final

import click

__all__ = ["force_option", "output_option", "paths_argument"]

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
