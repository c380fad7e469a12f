"""The command line: its commands, and the one edge where errors become words.

The modules that do a command are imported when it is called, so that help stays light.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import click
import msgspec

from stepscope import __version__
from stepscope.cli.light_start import MORE_THREADS, check_threads, light_start
from stepscope.cli.options import parameters_of
from stepscope.cli.output import (
    STANDARD_OUTPUT,
    drop_output,
    flush_output,
    refusal_sentence,
)
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
from stepscope.doctor.kernel_checks import uncompiled_notice
from stepscope.errors import BadUsage, StepscopeError, one_line
from stepscope.serve.built import missing_page_notice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


#: Exit status for bad usage, bad input, or a defect of this program.
_NO_ANSWER: Final = 2
#: Exit status that shells report for an interrupted program.
INTERRUPTED: Final = 130
#: What Python says where the system refuses a thread.
_NO_THREAD: Final = "can't start new thread"
_REPORT_DEFECTS: Final = (
    "this is a defect of stepscope. Set STEPSCOPE_DEBUG=1 for the traceback and "
    "report it with the file's kind and size"
)


class _Interrupted(Exception):
    """Ctrl-C was pressed; of Python's own exception Click makes an empty line."""


class Edge(click.Group):
    """Loads commands by name, and turns whatever goes wrong into one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name all commands, in the order in which a person needs them."""
        del ctx
        return [command.name for command in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name with its options."""
        del ctx
        for command in COMMANDS:
            if command.name == cmd_name:
                return command.parsed()
        raise BadUsage.unknown_name(
            "command", cmd_name, [command.name for command in COMMANDS]
        )

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the commands from the table alone, without their options."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(command.name, command.help) for command in COMMANDS])

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; a closed pipe on standard output is no error."""
        try:
            outcome: object = super().invoke(ctx)
            flush_output()
        except BrokenPipeError:
            drop_output()
            return 0
        except KeyboardInterrupt:
            raise _Interrupted from None
        return outcome

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read a command line, which imports the command."""
        try:
            return super().make_context(*args, **extra)
        except KeyboardInterrupt:
            raise _Interrupted from None

    def main(  # type: ignore[override]  # click types standalone modes apart
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        **extra: Any,
    ) -> NoReturn:
        """Run a command and leave with its exit status.

        Definition: docs/errors/bad_usage.md.
        """
        extra.pop("standalone_mode", None)
        arguments = None if args is None else list(args)
        try:
            outcome = super().main(
                arguments,
                prog_name or "stepscope",
                standalone_mode=False,
                **extra,
            )
        except (KeyboardInterrupt, click.Abort, _Interrupted):
            _complain("interrupted")
            sys.exit(INTERRUPTED)
        except click.ClickException as error:
            _complain(one_line(_with_help(error)))
            sys.exit(_NO_ANSWER)
        except StepscopeError as error:
            _complain(one_line(str(error)))
            sys.exit(_NO_ANSWER)
        except OSError as error:
            _complain(one_line(refusal_sentence(error)))
            if error.filename in {None, STANDARD_OUTPUT}:
                drop_output()
            sys.exit(_NO_ANSWER)
        except RuntimeError as error:
            if _NO_THREAD not in str(error):
                _defect(error)
            else:
                _complain(f"no more threads can be started. {MORE_THREADS}")
            sys.exit(_NO_ANSWER)
        except Exception as error:  # noqa: BLE001 - the edge: nothing escapes as a traceback
            _defect(error)
            sys.exit(_NO_ANSWER)
        sys.exit(outcome if isinstance(outcome, int) else 0)


@click.group(
    cls=Edge,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, asked: _version(context) if asked else None,
    help="Show the version, and what this installation lacks.",
)
@click.pass_context
def main(context: click.Context) -> None:
    """See inside every training step: where its time went, and what to change.

    PATH is a log directory (its newest run), a run directory, or one file of a
    supported format; several PATHs are several workers of one run.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _version(context: click.Context) -> None:
    click.echo(f"stepscope, version {__version__}")
    for missing in (uncompiled_notice(), missing_page_notice()):
        if missing is not None:
            click.echo(missing)
    context.exit()


def _complain(what: str) -> None:
    click.echo(f"stepscope: {what}", err=True)


def _with_help(error: click.ClickException) -> str:
    """Write what was wrong with a command line, and where its usage is."""
    said = error.format_message()
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return said
    return f"{said} See `{error.ctx.command_path} --help`."


def _defect(error: Exception) -> None:
    if os.environ.get("STEPSCOPE_DEBUG"):
        traceback.print_exception(error)
    kind = type(error).__name__
    _complain(one_line(f"{kind}: {error}; {_REPORT_DEFECTS}"))
