"""What each command can be asked for: its options and arguments, declared once.

The docstring of a request is the help of its command.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import click
import msgspec

from stepscope.capture.ground.options import LEAST_WINDOW_S
from stepscope.cli.options import EXISTING_FILE, GIVEN_PATH, Argument, Option
from stepscope.frozen import Frozen

#: Forms of `report`.
REPORT_FORMS: Final = ("text", "json", "markdown")
#: Forms of `show`.
SHOW_FORMS: Final = ("table", "json", "csv", "parquet", "pprof")
#: Steps that are recorded where nobody says how many.
USUAL_STEPS: Final = 10

Command = Annotated[
    tuple[str, ...], Argument("COMMAND…", click.UNPROCESSED, required=False)
]
Paths = Annotated[tuple[str, ...], Argument("PATH…", GIVEN_PATH)]
OutputFile = Annotated[
    str | None,
    Option("Write into FILE.", "FILE", ("-o", "--output"), type=GIVEN_PATH),
]
Force = Annotated[bool, Option("Overwrite FILE where it exists.")]
KernelTable = Annotated[
    str | None,
    Option(
        "Metrics of the same program's kernels: a table or report of Nsight Compute.",
        "TABLE",
        type=GIVEN_PATH,
    ),
]
ReportForm = Annotated[
    str, Option("Form of the answer.", "|".join(REPORT_FORMS), ("--format",))
]
SameWork = Annotated[
    bool,
    Option("State that both runs do the same work in a step, where nothing proves it."),
]
LogDirectory = Annotated[
    str, Option("Where the recording is written.", "DIR", type=GIVEN_PATH)
]
NoReport = Annotated[bool, Option("Record only; do not report.")]
_LOG_DIRECTORY: Final = "stepscope-logs"
_HOST_LEVELS: Final = (
    "0 nothing of the framework's ops, 1 critical ones, 2 all, 3 verbose."
)
_DEVICE_LEVELS: Final = "0 records nothing of devices."


class ReadsProfiles(Frozen, frozen=True):
    """What a command is asked for that reads profiles, answers and ends."""

    def files_to_read(self) -> tuple[str, ...]:
        """Return all files and folders that it reads."""
        return ()


class ReportRequest(ReadsProfiles, frozen=True, eq=True, kw_only=True):
    """Say where the step time of a profile went, and what to change.

    PATH is a log directory (its newest run), a run directory, or one file of a
    supported format; several PATHs are several workers of one run.
    """

    paths: Paths
    against: Annotated[
        tuple[str, ...],
        Option(
            "Compare with the run BASE: what changed, and whether promised gains came.",
            "BASE",
            type=GIVEN_PATH,
        ),
    ] = ()
    same_work: SameWork = False
    synthetic: Annotated[
        bool,
        Option(
            "State that PATH is the run BASE on synthetic data: does BASE wait for "
            "input?"
        ),
    ] = False
    store: Annotated[
        bool,
        Option(
            "Keep the promised gains next to the log directory, and answer for earlier "
            "ones."
        ),
    ] = False
    explain: Annotated[
        str | None,
        Option(
            "Say how RULE came to its verdict: definition, numbers, what was left out.",
            "RULE",
        ),
    ] = None
    form: ReportForm = "text"
    kernels: KernelTable = None
    output: OutputFile = None
    force: Force = False

    def files_to_read(self) -> tuple[str, ...]:
        """Return all files and folders that it reads."""
        return tuple(filter(None, (*self.paths, *self.against, self.kernels)))


class DiffRequest(ReadsProfiles, frozen=True, kw_only=True):
    """Compare two runs: what changed, and what explains the change.

    BASE and NEW are a log directory (its newest run), a run directory, or one file of a
    supported format each. It is the answer of "report NEW --against BASE", which takes
    several workers of one run.
    """

    base: Annotated[str, Argument("BASE", GIVEN_PATH)]
    new: Annotated[str, Argument("NEW", GIVEN_PATH)]
    same_work: SameWork = False
    form: ReportForm = "text"
    output: OutputFile = None
    force: Force = False

    def files_to_read(self) -> tuple[str, ...]:
        """Return all files and folders that it reads."""
        return self.base, self.new


class ExplainRequest(ReadsProfiles, frozen=True, kw_only=True):
    """Say who owns an interval of idle time, and what ran meanwhile.

    TIME counts from the start of the profile, as in the timeline. Give --at for the gap
    around an instant, or --from and --to. Without a device it is said whose time that
    of the step threads is.
    """

    paths: Paths
    at: Annotated[
        str | None,
        Option(
            "Explain the gap of the device that holds TIME (1.2345s, 12ms, 850us).",
            "TIME",
        ),
    ] = None
    begin: Annotated[
        str | None, Option("Explain the time from TIME on …", "TIME", ("--from",))
    ] = None
    end: Annotated[str | None, Option("… to TIME.", "TIME", ("--to",))] = None
    host: Annotated[
        str | None, Option("On this host; by default the first one.", "H")
    ] = None
    device: Annotated[
        int | None,
        Option("Of this device; by default the one that waits longest at TIME.", "N"),
    ] = None
    form: ReportForm = "text"
    output: OutputFile = None
    force: Force = False

    def files_to_read(self) -> tuple[str, ...]:
        """Return all files and folders that it reads."""
        return self.paths


class ShowRequest(ReadsProfiles, frozen=True, kw_only=True):
    """Print the tables of one tool.

    Tools: overview_page (overview), input_pipeline_analyzer (input),
    framework_op_stats (ops), kernel_stats (kernels), roofline_model (roofline),
    memory_profile (memory), pod_viewer (pod), trace_viewer (trace),
    tf_data_bottleneck_analysis (tfdata), inference_profile (inference), model_views
    (model). PATH is a log directory (its newest run), a run directory, or one file;
    several are several workers of one run.
    """

    tool: Annotated[str, Argument("TOOL")]
    paths: Paths
    hosts: Annotated[tuple[str, ...], Option("Only this host.", "H", ("--host",))] = ()
    compat: Annotated[
        str | None,
        Option(
            "The numbers that the producer itself wrote at capture time: tensorflow.",
            "PRODUCER",
        ),
    ] = None
    form: Annotated[
        str,
        Option(
            "Form of the answer; parquet and pprof need -o, pprof is of model_views.",
            "|".join(SHOW_FORMS),
            ("--format",),
        ),
    ] = "table"
    table: Annotated[str | None, Option("Another table of TOOL.", "NAME")] = None
    options: dict[str, object] = msgspec.field(default_factory=dict)
    kernels: KernelTable = None
    output: OutputFile = None
    force: Force = False

    def files_to_read(self) -> tuple[str, ...]:
        """Return all files and folders that it reads."""
        return tuple(filter(None, (*self.paths, self.kernels)))


class RunRequest(Frozen, frozen=True, kw_only=True):
    """Run a Python program under the profiler, then report.

    COMMAND is script.py, -m MODULE, python x.py, torchrun …, or any command that starts
    Python, with its arguments. Nothing in the program changes. Steps are found by
    themselves: batches of Keras fit, steps of a PyTorch optimizer, calls of a jitted
    function or a tf.function, or what the program marks with ss.Trace. The exit status
    is the program's own. What stepscope says, it says on standard error.
    """

    command: Command
    logdir: LogDirectory = _LOG_DIRECTORY
    skip_steps: Annotated[int, Option("Steps before recording begins.", "N")] = 10
    steps: Annotated[
        int | None,
        Option(
            "Steps to record.",
            "N",
            default=f"{USUAL_STEPS}, and more until {LEAST_WINDOW_S:g} s have passed",
        ),
    ] = None
    max_s: Annotated[
        float,
        Option(
            "End with the step that ends S seconds or more after the first one.", "S"
        ),
    ] = 10.0
    wait_s: Annotated[
        float,
        Option("Where no steps are found: seconds before recording begins.", "S"),
    ] = 15.0
    record_s: Annotated[
        float, Option("Where no steps are found: seconds to record.", "S")
    ] = 5.0
    max_slowdown: Annotated[
        float,
        Option(
            "Record less where steps take more than X longer than before; 1 is twice.",
            "X",
        ),
    ] = 4.0
    host_tracer_level: Annotated[int, Option(_HOST_LEVELS, "0-3")] = 2
    python_tracer_level: Annotated[
        int,
        Option(
            "1 records every call of a Python function, in place of samples.", "0-1"
        ),
    ] = 0
    device_tracer_level: Annotated[int, Option(_DEVICE_LEVELS, "0-1")] = 1
    python_sampling_hz: Annotated[
        float,
        Option("Stack samples a second; 0 takes none.", "HZ"),
    ] = 100.0
    record_shapes: Annotated[bool, Option("Shapes of ops' inputs (PyTorch).")] = False
    profile_memory: Annotated[bool, Option("Allocations (PyTorch).")] = False
    no_report: NoReport = False
    serve: Annotated[
        str | None,
        Option(
            "Record nothing by itself: listen for stepscope capture (a free PORT).",
            "[[HOST:]PORT]",
            flag_value="0",
        ),
    ] = None
    open_to: Annotated[
        Literal["machine", "network"] | None,
        Option(
            "With --serve: any user of this machine, or whoever reaches the port, may "
            "record, without a token (TensorFlow's and XProf's clients send none).",
            flags=("--open",),
        ),
    ] = None
    certificate: Annotated[
        str | None,
        Option(
            "With --serve: encrypt, with this chain of certificates (PEM).",
            "FILE",
            type=EXISTING_FILE,
        ),
    ] = None
    key: Annotated[
        str | None,
        Option("The private key of --certificate (PEM).", "FILE", type=EXISTING_FILE),
    ] = None


class CaptureRequest(Frozen, frozen=True, kw_only=True):
    """Record running programs that listen for it, then report.

    ADDRESS is host:port of a profiler server in the program: that of stepscope run
    --serve, ss.server.start, tf.profiler.experimental.server.start or
    jax.profiler.start_server. Several are
    recorded at the same time, as hosts of one run; @FILE means the addresses in a file,
    unix:/PATH a Unix socket, tpu://NAME:PORT that port of each worker of a Cloud TPU.
    """

    addresses: Annotated[tuple[str, ...], Argument("ADDRESS…", required=False)]
    attach: Annotated[
        tuple[int, ...],
        Option(
            "A process of this machine: of stepscope run --serve, or one that called "
            "ss.server.start(). A launcher means all that it started. May be given "
            "often.",
            "PID",
            type=click.IntRange(1),
        ),
    ] = ()
    duration_ms: Annotated[
        int | None,
        Option(
            "How long to record.",
            "N",
            ("--ms",),
            type=click.IntRange(1, 3_600_000),
            default="2000; with --steps 60000",
        ),
    ] = None
    steps: Annotated[
        int | None,
        Option(
            "End after N whole steps, at the latest after --ms (stepscope's servers).",
            "N",
            type=click.IntRange(1, 1_000_000),
        ),
    ] = None
    delay_ms: Annotated[
        int, Option("Begin N milliseconds later.", "N", type=click.IntRange(0))
    ] = 0
    attempts: Annotated[
        int,
        Option(
            "How often to ask a host that is busy or does not answer.",
            "N",
            type=click.IntRange(1, 100),
        ),
    ] = 3
    logdir: Annotated[
        str,
        Option(
            "Where the recording is written: a directory, or a URL (s3://…, gs://…).",
            "DIR",
            type=GIVEN_PATH,
        ),
    ] = _LOG_DIRECTORY
    host_tracer_level: Annotated[
        int, Option(_HOST_LEVELS, "0-3", type=click.IntRange(0, 3))
    ] = 2
    python_tracer_level: Annotated[
        int,
        Option(
            "1 records every call of a Python function.",
            "0-1",
            type=click.IntRange(0, 1),
        ),
    ] = 0
    device_tracer_level: Annotated[
        int, Option(_DEVICE_LEVELS, "0-1", type=click.IntRange(0, 1))
    ] = 1
    token: Annotated[
        str | None,
        Option(
            "What servers of other users and machines want to be sent; or set "
            "STEPSCOPE_TOKEN. Those of your own here are known.",
            "TEXT",
            envvar="STEPSCOPE_TOKEN",
        ),
    ] = None
    certificate: Annotated[
        str | None,
        Option(
            "Encrypt, and trust servers with this certificate (PEM).",
            "FILE",
            type=EXISTING_FILE,
        ),
    ] = None
    max_bytes: Annotated[
        int,
        Option(
            "Take no larger recording from a host.",
            "N",
            type=click.IntRange(1),
            default="4 GiB",
        ),
    ] = 4 * 2**30
    allow_partial: Annotated[
        bool, Option("Succeed where only some hosts were recorded.")
    ] = False
    form: Annotated[
        Literal["text", "json"],
        Option("How to say what became of each host.", flags=("--format",)),
    ] = "text"
    no_report: NoReport = False


class ServeRequest(Frozen, frozen=True, kw_only=True):
    """Show the profiles of a log directory in a browser.

    LOGDIR is a log directory, a run directory, a trace file, or the URL of one of
    these (s3://…, gs://…). New profiles are shown as soon as they are there.
    """

    logdir: Annotated[str, Argument("LOGDIR", GIVEN_PATH)]
    host: Annotated[
        str,
        Option(
            "Listen at this address; one that others reach asks for a token.", "ADDRESS"
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        Option(
            "Listen at this port; 0 takes any free one.",
            "N",
            type=click.IntRange(0, 65535),
        ),
    ] = 6007
    kernels: KernelTable = None
    source: Annotated[
        tuple[str, ...],
        Option(
            "Show the text of the program's files in this directory; may be given "
            "again.",
            "DIR",
        ),
    ] = ()
    capture: Annotated[
        tuple[str, ...],
        Option(
            "Let the page record the program that listens there; may be given again.",
            "HOST:PORT",
        ),
    ] = ()
    capture_token: Annotated[
        str | None,
        Option(
            "What these programs want to be sent; or set STEPSCOPE_TOKEN.",
            "TEXT",
            envvar="STEPSCOPE_TOKEN",
        ),
    ] = None


class DoctorRequest(Frozen, frozen=True, kw_only=True):
    """Say what can be recorded here, what cannot, and what fixes it.

    With PATH: what the recording of that log directory, run or file lacks, and why.
    The exit status is 1 where something cannot be recorded at all, or was lost.

    With -- COMMAND: how large recordings of that program are, and how much slower it is
    meanwhile, from one run to its end. The exit status is the program's own.
    """

    path: Annotated[
        str | None, Argument("[PATH | -- COMMAND…]", GIVEN_PATH, required=False)
    ] = None
    program: tuple[str, ...] | None = None
    logdir: Annotated[
        str, Option("Where a recording would be written.", "DIR", type=GIVEN_PATH)
    ] = _LOG_DIRECTORY
    form: Annotated[
        Literal["text", "json"],
        Option("For people, or for programs.", flags=("--format",)),
    ] = "text"


class NsysRequest(Frozen, frozen=True, kw_only=True):
    """Record a program with Nsight Systems, then report.

    The exit status is that of the program.
    """

    command: Command
    range: Annotated[
        str | None,
        Option(
            "Record while the NVTX range of this name is open, the first time.", "NAME"
        ),
    ] = None
    profiler_api: Annotated[
        bool,
        Option(
            "Record between the program's own calls of cudaProfilerStart and -Stop."
        ),
    ] = False
    delay_s: Annotated[
        int, Option("Seconds before recording begins.", "S", type=click.IntRange(0))
    ] = 0
    duration_s: Annotated[
        int | None,
        Option(
            "Seconds to record; until the program ends where it is left out.",
            "S",
            type=click.IntRange(1),
        ),
    ] = None
    output: Annotated[
        str,
        Option(
            "Write NAME.nsys-rep and NAME.sqlite.",
            "NAME",
            ("--output", "-o"),
            type=GIVEN_PATH,
        ),
    ] = "timeline"
    force: Force = False
    no_report: Annotated[bool, Option("Record only.")] = False


class NcuRequest(Frozen, frozen=True, kw_only=True):
    """Measure the kernels of a program with Nsight Compute.

    Each kernel is run again and again, alone: the program takes much longer, and its
    times mean nothing. The exit status is that of the program.
    """

    command: Command
    beside: Annotated[
        str | None,
        Option(
            "A recording of the same program: report on it with what was measured.",
            "PATH",
            type=GIVEN_PATH,
        ),
    ] = None
    op: Annotated[
        str | None,
        Option("Only kernels that this op launches in --beside PATH.", "NAME"),
    ] = None
    kernels: Annotated[
        tuple[str, ...],
        Option(
            "Only kernels whose function's name matches as a whole.",
            "REGEX",
            ("--kernel",),
        ),
    ] = ()
    range: Annotated[
        str | None,
        Option("Only kernels launched inside the NVTX range of this name.", "NAME"),
    ] = None
    profiler_api: Annotated[
        bool,
        Option(
            "Measure between the program's own calls of cudaProfilerStart and -Stop."
        ),
    ] = False
    skip: Annotated[
        int,
        Option(
            "Launches of these kernels before the first that is measured.",
            "N",
            type=click.IntRange(0),
        ),
    ] = 0
    launches: Annotated[
        int,
        Option(
            "Launches to measure; each one is run many times.",
            "N",
            ("--count",),
            type=click.IntRange(1),
        ),
    ] = 100
    sections: Annotated[
        str,
        Option(
            "Sections to measure: basic, full, roofline, or another set of ncu.",
            "NAME",
            ("--set",),
        ),
    ] = "full"
    output: Annotated[
        str,
        Option(
            "Write NAME.ncu-rep and NAME.csv.",
            "NAME",
            ("--output", "-o"),
            type=GIVEN_PATH,
        ),
    ] = "kernels"
    force: Force = False


class DemoRequest(Frozen, frozen=True, kw_only=True):
    """Record a small training loop here, and explain it.

    The loop uses PyTorch, JAX or TensorFlow, whichever is installed beside stepscope,
    else NumPy alone. What is printed is what `stepscope run` prints for your own.
    """
