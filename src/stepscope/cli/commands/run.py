"""`stepscope run`: record a program that was not changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepscope.capture.ground.options import LEAST_WINDOW_S, MAX_EVENTS
from stepscope.cli.commands.options import GIVEN_PATH
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from stepscope.remote.access.openness import OpenTo

_DEFAULT_LOGDIR = "stepscope-logs"
_STEPS = 10


@click.command(
    "run",
    # What follows the command is the command's own; `-m` and `-c` are commands too.
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
)
@click.argument("command", metavar="COMMAND…", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--logdir",
    default=_DEFAULT_LOGDIR,
    show_default=True,
    metavar="DIR",
    type=GIVEN_PATH,
    help="Where the recording is written.",
)
@click.option(
    "--skip-steps",
    default=10,
    show_default=True,
    metavar="N",
    help="Steps before recording begins.",
)
@click.option(
    "--steps",
    default=None,
    type=int,
    show_default=f"{_STEPS}, and more until {LEAST_WINDOW_S:g} s have passed",
    metavar="N",
    help="Steps to record.",
)
@click.option(
    "--max-s",
    default=10.0,
    show_default=True,
    metavar="S",
    help="End with the step that ends so many seconds after the first one.",
)
@click.option(
    "--wait-s",
    default=15.0,
    show_default=True,
    metavar="S",
    help="Where no steps are found: seconds before recording begins.",
)
@click.option(
    "--record-s",
    default=5.0,
    show_default=True,
    metavar="S",
    help="Where no steps are found: seconds to record.",
)
@click.option(
    "--max-slowdown",
    default=4.0,
    show_default=True,
    metavar="X",
    help="Record less where steps take more than X longer than before; 1 is twice.",
)
@click.option(
    "--host-tracer-level",
    default=2,
    show_default=True,
    metavar="0-3",
    help="0 nothing of the framework's ops, 1 critical ones, 2 all, 3 verbose.",
)
@click.option(
    "--python-tracer-level",
    default=0,
    show_default=True,
    metavar="0-1",
    help="1 records every call of a Python function, in place of samples.",
)
@click.option(
    "--device-tracer-level",
    default=1,
    show_default=True,
    metavar="0-1",
    help="0 records nothing of devices.",
)
@click.option(
    "--python-sampling-hz",
    default=100.0,
    show_default=True,
    metavar="HZ",
    help="Looks a second at which functions run; 0 takes none.",
)
@click.option("--record-shapes", is_flag=True, help="Shapes of ops' inputs (PyTorch).")
@click.option("--profile-memory", is_flag=True, help="Allocations (PyTorch).")
@click.option("--no-report", is_flag=True, help="Record only; do not report.")
@click.option(
    "--serve",
    is_flag=False,
    flag_value="0",
    default=None,
    metavar="[[HOST:]PORT]",
    help="Record nothing by itself: listen for stepscope capture (a free PORT).",
)
@click.option(
    "--open",
    "open_to",
    type=click.Choice(["machine", "network"]),
    help="With --serve: any user of this machine, or whoever reaches the port, may "
    "record, without a token (TensorFlow's and XProf's clients send none).",
)
@click.option(
    "--certificate",
    type=click.Path(exists=True, dir_okay=False, path_type=str),
    metavar="FILE",
    help="With --serve: encrypt, with this chain of certificates (PEM).",
)
@click.option(
    "--key",
    type=click.Path(exists=True, dir_okay=False, path_type=str),
    metavar="FILE",
    help="The private key of --certificate (PEM).",
)
@click.pass_context
def run(
    context: click.Context,
    *,
    command: tuple[str, ...],
    logdir: str,
    skip_steps: int,
    steps: int | None,
    max_s: float,
    wait_s: float,
    record_s: float,
    max_slowdown: float,
    host_tracer_level: int,
    python_tracer_level: int,
    device_tracer_level: int,
    python_sampling_hz: float,
    record_shapes: bool,
    profile_memory: bool,
    no_report: bool,
    serve: str | None,
    open_to: OpenTo | None,
    certificate: str | None,
    key: str | None,
) -> int:
    """Run a Python program under the profiler, then report.

    COMMAND is script.py, -m MODULE, python x.py, torchrun …, or any command that starts
    Python, with its arguments. Nothing in the program changes. Steps are found by
    themselves: batches of Keras fit, steps of a PyTorch optimizer, calls of a jitted
    function or a tf.function, or what the program marks with ss.Trace. The exit status
    is the program's own. What stepscope says, it says on standard error.
    """
    from stepscope.cli import run as running  # noqa: PLC0415 - help stays light

    if serve is not None:
        return running.answer_served(
            command,
            serve,
            open_to=open_to,
            certificate=certificate,
            key=key,
            given=_given(context),
        )
    if open_to is not None:
        raise BadUsage("--open says who may ask a program that listens: add --serve.")
    if certificate is not None or key is not None:
        raise BadUsage("--certificate and --key encrypt a server: add --serve.")
    is_bounded = not {"--steps", "--record-s"} & set(_given(context))
    plan = running.planned(
        logdir,
        skip_steps=skip_steps,
        steps=_STEPS if steps is None else steps,
        least_s=LEAST_WINDOW_S if steps is None else 0.0,
        max_s=max_s,
        wait_s=wait_s,
        record_s=record_s,
        max_slowdown=max_slowdown,
        max_events=MAX_EVENTS if is_bounded else 0,
        host_tracer_level=host_tracer_level,
        python_tracer_level=python_tracer_level,
        device_tracer_level=device_tracer_level,
        python_sampling_hz=python_sampling_hz,
        record_shapes=record_shapes,
        profile_memory=profile_memory,
    )
    return running.answer(command, plan, reports=not no_report)


def _given(context: click.Context) -> list[str]:
    """Return the options that were written, as they are called."""
    by_default = click.core.ParameterSource.DEFAULT
    return [
        option.opts[0]
        for option in context.command.params
        if isinstance(option, click.Option)
        and option.name is not None
        and context.get_parameter_source(option.name) is not by_default
    ]
