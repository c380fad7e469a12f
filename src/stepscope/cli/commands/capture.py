"""`stepscope capture`: record programs that run already."""

from __future__ import annotations

from typing import Any

import click

from stepscope.cli.commands.options import GIVEN_PATH

_DEFAULT_LOGDIR = "stepscope-logs"


@click.command("capture")
@click.argument("addresses", metavar="ADDRESS…", nargs=-1)
@click.option(
    "--attach",
    type=click.IntRange(1),
    multiple=True,
    metavar="PID",
    help="A process of this machine: of stepscope run --serve, or one that called "
    "ss.server.start(). A launcher means all that it started. May be given often.",
)
@click.option(
    "--ms",
    "duration_ms",
    default=None,
    show_default="2000; with --steps 60000",
    type=click.IntRange(1, 3_600_000),
    metavar="N",
    help="How long to record.",
)
@click.option(
    "--steps",
    default=None,
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="End after N whole steps, at the latest after --ms (stepscope's servers).",
)
@click.option(
    "--delay-ms",
    default=0,
    type=click.IntRange(0),
    metavar="N",
    help="Begin so much later.",
)
@click.option(
    "--attempts",
    default=3,
    show_default=True,
    type=click.IntRange(1, 100),
    metavar="N",
    help="How often to ask a host that is busy or does not answer.",
)
@click.option(
    "--logdir",
    default=_DEFAULT_LOGDIR,
    show_default=True,
    metavar="DIR",
    type=GIVEN_PATH,
    help="Where the recording is written: a directory, or a URL (s3://…, gs://…).",
)
@click.option(
    "--host-tracer-level",
    default=2,
    show_default=True,
    type=click.IntRange(0, 3),
    metavar="0-3",
    help="0 nothing of the framework's ops, 1 critical ones, 2 all, 3 verbose.",
)
@click.option(
    "--python-tracer-level",
    default=0,
    show_default=True,
    type=click.IntRange(0, 1),
    metavar="0-1",
    help="1 records every call of a Python function.",
)
@click.option(
    "--device-tracer-level",
    default=1,
    show_default=True,
    type=click.IntRange(0, 1),
    metavar="0-1",
    help="0 records nothing of devices.",
)
@click.option(
    "--token",
    envvar="STEPSCOPE_TOKEN",
    metavar="TEXT",
    help="What servers of other users and machines want to be sent; or set "
    "STEPSCOPE_TOKEN. Those of your own here are known.",
)
@click.option(
    "--certificate",
    type=click.Path(exists=True, dir_okay=False, path_type=str),
    metavar="FILE",
    help="Encrypt, and trust servers with this certificate (PEM).",
)
@click.option(
    "--max-bytes",
    default=4 * 2**30,
    show_default="4 GiB",
    type=click.IntRange(1),
    metavar="N",
    help="Take no larger recording from a host.",
)
@click.option(
    "--allow-partial",
    is_flag=True,
    help="Succeed where only some hosts were recorded.",
)
@click.option(
    "--format",
    "form",
    default="text",
    show_default=True,
    type=click.Choice(["text", "json"]),
    help="How to say what became of each host.",
)
@click.option("--no-report", is_flag=True, help="Record only; do not report.")
def capture(*, addresses: tuple[str, ...], **choices: Any) -> int:
    """Record running programs that listen for it, then report.

    ADDRESS is host:port of a profiler server in the program: that of stepscope run
    --serve, ss.server.start, tf.profiler.experimental.server.start or
    jax.profiler.start_server. Several are
    recorded at the same time, as hosts of one run; @FILE means the addresses in a file,
    unix:/PATH a Unix socket, tpu://NAME:PORT that port of each worker of a Cloud TPU.
    """
    from stepscope.cli import capture as capturing  # noqa: PLC0415 - help stays light

    return capturing.answer(addresses, **choices)
