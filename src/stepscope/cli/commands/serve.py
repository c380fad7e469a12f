"""`stepscope serve`: the results of a log directory in a browser."""

from __future__ import annotations

import click

from stepscope.cli.commands.options import GIVEN_PATH, kernels_option
from stepscope.cli.light_start import check_threads


@click.command("serve")
@click.argument("logdir", type=GIVEN_PATH)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Listen at this address; one that others reach asks for a token.",
)
@click.option(
    "--port",
    default=6007,
    show_default=True,
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Listen at this port; 0 takes any free one.",
)
@kernels_option
@click.option(
    "--source",
    "source",
    multiple=True,
    metavar="DIR",
    help="Show the text of the program's files in this directory; may be given again.",
)
@click.option(
    "--capture",
    "capture",
    multiple=True,
    metavar="HOST:PORT",
    help="Let the page record the program that listens there; may be given again.",
)
@click.option(
    "--capture-token",
    envvar="STEPSCOPE_TOKEN",
    metavar="TEXT",
    help="What these programs want to be sent; or set STEPSCOPE_TOKEN.",
)
def serve(
    *,
    logdir: str,
    host: str,
    port: int,
    kernels: str | None,
    source: tuple[str, ...],
    capture: tuple[str, ...],
    capture_token: str | None,
) -> int:
    """Show the profiles of LOGDIR in a browser, new ones as soon as they are there.

    LOGDIR is a log directory, a run directory, a trace file, or the URL of one of
    these (s3://…, gs://…).
    """
    check_threads()
    from stepscope.cli import serve as serving  # noqa: PLC0415 - help stays light

    return serving.answer(
        logdir,
        host=host,
        port=port,
        kernels=kernels,
        source=source,
        capture=capture,
        capture_token=capture_token,
    )
