"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    import os


class _GivenPath(click.Path):
    """A path that names something: what is empty would be the working directory."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        if not value:
            self.fail("An empty path names nothing.", param, ctx)
        return super().convert(value, param, ctx)


#: The type of each argument and option that is a path.
GIVEN_PATH: Final = _GivenPath(path_type=str)

paths_argument: Final = click.argument(
    "paths", metavar="PATH…", nargs=-1, required=True, type=GIVEN_PATH
)
output_option: Final = click.option(
    "-o",
    "--output",
    type=GIVEN_PATH,
    metavar="FILE",
    help="Write into FILE.",
)
force_option: Final = click.option(
    "--force", is_flag=True, help="Overwrite FILE where it exists."
)
kernels_option: Final = click.option(
    "--kernels",
    metavar="TABLE",
    type=GIVEN_PATH,
    help="Metrics of the same program's kernels: a table or report of Nsight Compute.",
)
