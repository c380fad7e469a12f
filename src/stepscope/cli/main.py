"""The command line: its commands, and the conversion of errors into messages.

The module of a command is imported when the command is called, so that help is fast.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import click

from stepscope import __version__
from stepscope.cli.light_start import MORE_THREADS, check_threads, light_start
from stepscope.cli.options import complete_file, declared_parameters
from stepscope.cli.output import (
    STANDARD_OUTPUT,
    drop_output,
    flush_output,
    refusal_sentence,
    text_width,
)
from stepscope.cli.requests import (
    CaptureRequest,
    CompletionRequest,
    DemoRequest,
    DiffRequest,
    DoctorRequest,
    ExplainRequest,
    NcuRequest,
    NsysRequest,
    ReadsProfiles,
    ReportRequest,
    RunRequest,
    ServeRequest,
    ShowRequest,
    TryRequest,
)
from stepscope.doctor.kernel_checks import uncompiled_notice
from stepscope.errors import BadUsage, StepscopeError, printable_line
from stepscope.serve.built import missing_page_notice

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    import msgspec

    from stepscope.cli.options import Items

#: Separates stepscope's arguments from those of a program.
_PROGRAM: Final = "--"


class _WithProgram(click.Command):
    """A command that accepts a program and its arguments after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if _PROGRAM in args:
            place = args.index(_PROGRAM)
            ctx.params["program"] = tuple(args[place + 1 :])
            args = args[:place]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> Items:
        if "program" in ctx.params:
            return complete_file(incomplete)
        return super().shell_complete(ctx, incomplete)


class Command(NamedTuple):
    """A command: its request, and the module and function that implement it.

    The docstring of the request is the help text. Calling the command imports the
    module.
    """

    name: str
    request: type[msgspec.Struct]
    module: str
    function: str = "answer_request"
    kind: type[click.Command] = click.Command
    runs_program: bool = False
    checks_threads: bool = False

    @property
    def help(self) -> str:
        """First line of the help text."""
        return (self.request.__doc__ or "").partition("\n")[0]

    def parsed_command(self) -> click.Command:
        """Return the Click command with its options."""
        parameters = list(declared_parameters(self.name, self.request))
        if self.request is ShowRequest:
            from stepscope.cli.tool_options import tool_options  # noqa: PLC0415 - needed only for `show`

            # The last three options do not depend on the tool.
            parameters[-3:-3] = tool_options()
        # Options after a program are the program's; `-m` and `-c` count as programs.
        settings = {"allow_interspersed_args": False, "ignore_unknown_options": True}
        return self.kind(
            self.name,
            params=parameters,
            callback=self._answer_request,
            help=self.request.__doc__,
            context_settings=settings if self.runs_program else {},
        )

    def _answer_request(self, **values: Any) -> int:
        fields = self.request.__struct_fields__
        own = {name: values.pop(name) for name in fields if name in values}
        if values:
            from stepscope.cli.tool_options import chosen_options  # noqa: PLC0415 - needed only for `show`

            own["options"] = chosen_options(values)
        request = self.request(**own)
        if self.checks_threads:
            check_threads()
        started: AbstractContextManager[object] = contextlib.nullcontext()
        if isinstance(request, ReadsProfiles):
            started = light_start(request.files_to_read())
        with started:
            module = importlib.import_module(f"stepscope.cli.{self.module}")
        status: int = getattr(module, self.function)(request)
        return status


#: All commands, in the order in which a user needs them.
COMMANDS: Final[tuple[Command, ...]] = (
    Command("run", RunRequest, "run", runs_program=True),
    Command("capture", CaptureRequest, "capture"),
    Command("nsys", NsysRequest, "nsight", "record_timeline", runs_program=True),
    Command("ncu", NcuRequest, "nsight", "measure_kernels", runs_program=True),
    Command("report", ReportRequest, "report"),
    Command("try", TryRequest, "trials.command", kind=_WithProgram),
    Command("show", ShowRequest, "show"),
    Command("explain", ExplainRequest, "explain"),
    Command("diff", DiffRequest, "report", "answer_difference"),
    Command("serve", ServeRequest, "serve", checks_threads=True),
    Command("doctor", DoctorRequest, "doctor", kind=_WithProgram),
    Command("demo", DemoRequest, "demo"),
    Command("completion", CompletionRequest, "options", "print_completion_script"),
)
#: Exit status after bad usage, bad input or a defect of stepscope.
_NO_ANSWER: Final = 2
#: Exit status that shells report for an interrupted program.
INTERRUPTED: Final = 130
#: Part of Python's error text if the system refuses to start a thread.
_NO_THREAD: Final = "can't start new thread"
_REPORT_DEFECTS: Final = (
    "this is a defect of stepscope. Set STEPSCOPE_DEBUG=1 for the traceback and "
    "report it with the file's kind and size"
)


class _Interrupted(Exception):
    """Ctrl-C was pressed; for a KeyboardInterrupt, Click would print an empty line."""


class Edge(click.Group):
    """Loads commands by name, and prints every error as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        del ctx
        return [command.name for command in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with the given name and its options."""
        for command in COMMANDS:
            if command.name == cmd_name:
                return command.parsed_command()
        if ctx.resilient_parsing:
            # A shell completes a word after an unknown command.
            return None
        raise BadUsage.unknown_name(
            "command", cmd_name, [command.name for command in COMMANDS]
        )

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the list of commands without parsing their options."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(command.name, command.help) for command in COMMANDS])

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; a closed pipe on standard output is not an error."""
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
        """Parse a command line; this imports the command's module."""
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
        """Run a command and exit with its status.

        Definition: docs/errors/bad_usage.md.
        """
        extra.pop("standalone_mode", None)
        arguments = None if args is None else list(args)
        try:
            outcome = super().main(
                arguments, prog_name or "stepscope", standalone_mode=False, **extra
            )
        except (KeyboardInterrupt, click.Abort, _Interrupted):
            _print_error("interrupted")
            sys.exit(INTERRUPTED)
        except click.ClickException as error:
            message = error.format_message()
            if isinstance(error, click.UsageError) and error.ctx is not None:
                message = f"{message} See `{error.ctx.command_path} --help`."
            _print_error(printable_line(message))
            sys.exit(_NO_ANSWER)
        except StepscopeError as error:
            _print_error(printable_line(str(error)))
            sys.exit(_NO_ANSWER)
        except OSError as error:
            _print_error(printable_line(refusal_sentence(error)))
            if error.filename in {None, STANDARD_OUTPUT}:
                drop_output()
            sys.exit(_NO_ANSWER)
        except RuntimeError as error:
            if _NO_THREAD not in str(error):
                _print_defect(error)
            else:
                _print_error(f"no more threads can be started. {MORE_THREADS}")
            sys.exit(_NO_ANSWER)
        except Exception as error:  # noqa: BLE001 - the user gets a message, not a traceback
            _print_defect(error)
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
    callback=lambda context, _, asked: _print_version(context) if asked else None,
    help="Show the version, and the parts that this installation lacks.",
)
@click.pass_context
def main(context: click.Context) -> None:
    """See inside every training step: where its time went, and what to change.

    PATH is a log directory (its newest run is used), a run directory, or one file of a
    supported format. Several PATHs are several workers of one run.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _print_version(context: click.Context) -> None:
    if context.resilient_parsing:
        return
    python = ".".join(map(str, sys.version_info[:3]))
    click.echo(f"stepscope, version {__version__}, Python {python}")
    uncompiled, no_page = uncompiled_notice(), missing_page_notice(text_width())
    kernels = "compiled" if uncompiled is None else "not compiled"
    page = "built" if no_page is None else "missing"
    click.echo(f"Kernels: {kernels}. Web page: {page}.")
    for notice in (uncompiled, no_page):
        if notice is not None:
            click.echo(notice)
    context.exit()


def _print_error(message: str) -> None:
    click.echo(f"stepscope: {message}", err=True)


def _print_defect(error: Exception) -> None:
    if os.environ.get("STEPSCOPE_DEBUG"):
        traceback.print_exception(error)
    _print_error(printable_line(f"{type(error).__name__}: {error}; {_REPORT_DEFECTS}"))
