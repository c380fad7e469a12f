"""The commands: what each is called, what its help says, and where it is done.

The modules that do it are imported when a command is called, so that help stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec

from stepscope.cli.light_start import check_threads, light_start
from stepscope.cli.options import parameters_of
from stepscope.cli.requests import (
    CaptureRequest,
    DemoRequest,
    DiffRequest,
    DoctorRequest,
    ExplainRequest,
    NcuRequest,
    NsysRequest,
    ReportRequest,
    RunRequest,
    ServeRequest,
    ShowRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable

#: Between our arguments and those of a program.
_PROGRAM: Final = "--"


def run(request: RunRequest) -> int:
    """Run a Python program under the profiler, then report.

    COMMAND is script.py, -m MODULE, python x.py, torchrun …, or any command that starts
    Python, with its arguments. Nothing in the program changes. Steps are found by
    themselves: batches of Keras fit, steps of a PyTorch optimizer, calls of a jitted
    function or a tf.function, or what the program marks with ss.Trace. The exit status
    is the program's own. What stepscope says, it says on standard error.
    """
    from stepscope.cli import run as running  # noqa: PLC0415 - help stays light

    return running.answer(request, _written_options(click.get_current_context()))


def capture(request: CaptureRequest) -> int:
    """Record running programs that listen for it, then report.

    ADDRESS is host:port of a profiler server in the program: that of stepscope run
    --serve, ss.server.start, tf.profiler.experimental.server.start or
    jax.profiler.start_server. Several are
    recorded at the same time, as hosts of one run; @FILE means the addresses in a file,
    unix:/PATH a Unix socket, tpu://NAME:PORT that port of each worker of a Cloud TPU.
    """
    from stepscope.cli import capture as capturing  # noqa: PLC0415 - help stays light

    return capturing.answer(request)


def nsys(request: NsysRequest) -> int:
    """Record a program with Nsight Systems, then report.

    The exit status is that of the program.
    """
    from stepscope.cli import nsight  # noqa: PLC0415 - help stays light

    return nsight.record(request)


def ncu(request: NcuRequest) -> int:
    """Measure the kernels of a program with Nsight Compute.

    Each kernel is run again and again, alone: the program takes much longer, and its
    times mean nothing. The exit status is that of the program.
    """
    from stepscope.cli import nsight  # noqa: PLC0415 - help stays light

    return nsight.measure(request)


def report(request: ReportRequest) -> int:
    """Say where the step time of a profile went, and what to change.

    PATH is a log directory (its newest run), a run directory, or one file of a
    supported format; several PATHs are several workers of one run.
    """
    paths = (*request.paths, *request.against, request.kernels)
    with light_start(filter(None, paths)):
        from stepscope.cli import report as reporting  # noqa: PLC0415 - help stays light

    return reporting.answer(request)


def show(request: ShowRequest, **of_tools: object) -> int:
    """Print the tables of one tool.

    Tools: overview_page (overview), input_pipeline_analyzer (input),
    framework_op_stats (ops), kernel_stats (kernels), roofline_model (roofline),
    memory_profile (memory), pod_viewer (pod), trace_viewer (trace),
    tf_data_bottleneck_analysis (tfdata), inference_profile (inference), model_views
    (model). PATH is a log directory (its newest run), a run directory, or one file;
    several are several workers of one run.
    """
    from stepscope.cli.tool_options import chosen_options  # noqa: PLC0415 - as its help

    with light_start(filter(None, (*request.paths, request.kernels))):
        from stepscope.cli import show as showing  # noqa: PLC0415 - help stays light

    compat = {} if request.compat is None else {"compat": request.compat}
    options = chosen_options(of_tools) | compat
    return showing.answer(msgspec.structs.replace(request, options=options))


def explain(request: ExplainRequest) -> int:
    """Say who owns a stretch of idle time, and what ran meanwhile.

    TIME counts from the start of the profile, as in the timeline. Give --at for the gap
    around an instant, or --from and --to. Without a device it is said whose time that
    of the step threads is.
    """
    with light_start(request.paths):
        from stepscope.cli import explain as explaining  # noqa: PLC0415 - help stays light

    return explaining.answer(request)


def diff(request: DiffRequest) -> int:
    """Compare two runs: what changed, and what explains the change.

    BASE and NEW are a log directory (its newest run), a run directory, or one file of a
    supported format each. It is the answer of "report NEW --against BASE", which takes
    several workers of one run.
    """
    given = msgspec.structs.asdict(request)
    paths, against = (given.pop("new"),), (given.pop("base"),)
    return report(ReportRequest(paths=paths, against=against, **given))


def serve(request: ServeRequest) -> int:
    """Show the profiles of a log directory in a browser.

    LOGDIR is a log directory, a run directory, a trace file, or the URL of one of
    these (s3://…, gs://…). New profiles are shown as soon as they are there.
    """
    check_threads()
    from stepscope.cli import serve as serving  # noqa: PLC0415 - help stays light

    return serving.answer(request)


def doctor(request: DoctorRequest) -> int:
    """Say what can be recorded here, what cannot, and what mends it.

    With PATH: what the recording of that log directory, run or file lacks, and why.
    The exit status is 1 where something cannot be recorded at all, or was lost.

    With -- COMMAND: how large recordings of that program are, and how much slower it is
    meanwhile, from one run to its end. The exit status is the program's own.
    """
    from stepscope.cli import doctor as examining  # noqa: PLC0415 - help stays light

    program = click.get_current_context().meta.get(_PROGRAM)
    return examining.answer(request, program)


def demo(request: DemoRequest) -> int:
    """Record a small training loop here, and explain it.

    The loop uses PyTorch, JAX or TensorFlow, whichever is installed beside stepscope,
    else NumPy alone. What is printed is what `stepscope run` prints for your own.
    """
    del request
    from stepscope.cli import demo as demonstrating  # noqa: PLC0415 - help stays light

    return demonstrating.answer()


class _WithProgram(click.Command):
    """Takes what follows `--` for a program and its arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the program off the arguments; an option of its own is none of ours."""
        if _PROGRAM in args:
            place = args.index(_PROGRAM)
            ctx.meta[_PROGRAM] = tuple(args[place + 1 :])
            args = args[:place]
        return super().parse_args(ctx, args)


class Command(NamedTuple):
    """One command.

    Attributes:
        call: Does it; named as the command, with its help as the docstring.
        request: What it is asked for.
        runs_program: Whether it ends with a program, whose options are its own.
    """

    call: Callable[..., int]
    request: type[msgspec.Struct]
    runs_program: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        return self.call.__name__

    @property
    def help(self) -> str:
        """The first line of its help."""
        return (self.call.__doc__ or "").partition("\n")[0]

    def parsed(self) -> click.Command:
        """Return the command with its options."""
        parameters = list(parameters_of(self.request))
        if self.call is show:
            from stepscope.cli.tool_options import tool_options  # noqa: PLC0415 - of it

            # Before those that do not depend on the tool.
            parameters[-3:-3] = tool_options()
        kind = _WithProgram if self.call is doctor else click.Command
        # What follows the command is the command's own; `-m` and `-c` are commands too.
        alone = {"allow_interspersed_args": False, "ignore_unknown_options": True}
        return kind(
            self.name,
            params=parameters,
            callback=self._answer,
            help=self.call.__doc__,
            context_settings=alone if self.runs_program else {},
        )

    def _answer(self, **values: Any) -> int:
        fields = self.request.__struct_fields__
        own = {name: values.pop(name) for name in fields if name in values}
        return self.call(self.request(**own), **values)


#: In the order in which a person needs them.
COMMANDS: Final[tuple[Command, ...]] = (
    Command(run, RunRequest, runs_program=True),
    Command(capture, CaptureRequest),
    Command(nsys, NsysRequest, runs_program=True),
    Command(ncu, NcuRequest, runs_program=True),
    Command(report, ReportRequest),
    Command(show, ShowRequest),
    Command(explain, ExplainRequest),
    Command(diff, DiffRequest),
    Command(serve, ServeRequest),
    Command(doctor, DoctorRequest),
    Command(demo, DemoRequest),
)


def _written_options(context: click.Context) -> list[str]:
    """Return the options that were written, as they are called."""
    by_default = click.core.ParameterSource.DEFAULT
    return [
        option.opts[0]
        for option in context.command.params
        if isinstance(option, click.Option)
        and option.name is not None
        and context.get_parameter_source(option.name) is not by_default
    ]
