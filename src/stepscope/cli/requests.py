"""Requests: the options of each command, with their types and defaults.

The docstring of a request is the help of its command. The help of its options is in
`options.json`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from stepscope.frozen import Frozen

#: Output formats of sentences, and those of `report`.
TEXT_FORMS: Final = ("text", "json", "markdown")
REPORT_FORMS: Final = (*TEXT_FORMS, "html")
#: Output formats of `show`.
SHOW_FORMS: Final = ("table", "json", "csv", "parquet", "pprof")
#: Default number of steps to record.
DEFAULT_STEPS: Final = 10

_LOG_DIRECTORY: Final = "stepscope-logs"


class ReadsProfiles(Frozen, frozen=True, kw_only=True):
    """Request of a short-lived command that reads profiles and writes one answer."""

    form: str = "text"
    output: str | None = None
    force: bool = False

    def files_to_read(self) -> tuple[str, ...]:
        """Return all files and folders that the command reads."""
        return ()


class ReportRequest(ReadsProfiles, frozen=True, eq=True, kw_only=True):
    """Report where the step time of a profile went, and what to change.

    PATH is a log directory (its newest run is used), a run directory, or one file of a
    supported format. Several PATHs are several workers of one run.
    """

    paths: tuple[str, ...]
    against: tuple[str, ...] = ()
    same_work: bool = False
    synthetic: bool = False
    store: bool = False
    explain: str | None = None
    full: bool = False
    fail_on: str | None = None
    redact: bool = False
    redact_map: str | None = None
    kernels: str | None = None

    def files_to_read(self) -> tuple[str, ...]:
        """Return all files and folders that the command reads."""
        return tuple(filter(None, (*self.paths, *self.against, self.kernels)))


class DiffRequest(ReadsProfiles, frozen=True, kw_only=True):
    """Compare two runs: what changed, and what explains the change.

    BASE and NEW are each a log directory (its newest run is used), a run directory, or
    one file of a supported format. "report NEW --against BASE" prints the same answer,
    and accepts several workers of one run.
    """

    base: str
    new: str
    same_work: bool = False

    def files_to_read(self) -> tuple[str, ...]:
        """Return all files and folders that the command reads."""
        return self.base, self.new


class ExplainRequest(ReadsProfiles, frozen=True, kw_only=True):
    """Explain a gap of a device: its cause, and what the host did in it.

    TIME is relative to the start of the profile, as in the timeline. Give --at for the
    gap around an instant, or --from and --to for an interval. If the profile has no
    device, the time of the step threads is explained.
    """

    paths: tuple[str, ...]
    at: str | None = None
    begin: str | None = None
    end: str | None = None
    host: str | None = None
    device: int | None = None

    def files_to_read(self) -> tuple[str, ...]:
        """Return all files and folders that the command reads."""
        return self.paths


class ShowRequest(ReadsProfiles, frozen=True, kw_only=True):
    """Print the tables of one tool.

    Tools: overview_page (overview), input_pipeline_analyzer (input), framework_op_stats
    (ops), kernel_stats (kernels), roofline_model (roofline), memory_profile (memory),
    pod_viewer (pod), trace_viewer (trace), tf_data_bottleneck_analysis (tfdata),
    inference_profile (inference), model_views (model). PATH is a log directory (its
    newest run is used), a run directory, or one file. Several PATHs are several workers
    of one run.
    """

    tool: str
    paths: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    compat: str | None = None
    form: str = "table"
    table: str | None = None
    schema_line: bool = False
    options: dict[str, object] = msgspec.field(default_factory=dict)
    kernels: str | None = None

    def files_to_read(self) -> tuple[str, ...]:
        """Return all files and folders that the command reads."""
        return tuple(filter(None, (*self.paths, self.kernels)))


class RunRequest(Frozen, frozen=True, kw_only=True):
    """Run a Python program under the profiler, then report.

    COMMAND is script.py, -m MODULE, python x.py, torchrun …, or any command that starts
    Python, with its arguments. The program is not modified. Steps are detected
    automatically: batches of Keras fit, steps of a PyTorch optimizer, calls of a jitted
    function or a tf.function, or annotations of the program (ss.Trace). The exit status
    is the program's own. Stepscope prints its messages on standard error.
    """

    command: tuple[str, ...]
    logdir: str = _LOG_DIRECTORY
    skip_steps: int = 10
    steps: int | None = None
    max_s: float = 10.0
    wait_s: float = 15.0
    record_s: float = 5.0
    max_slowdown: float = 4.0
    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    python_sampling_hz: float = 100.0
    record_shapes: bool = False
    profile_memory: bool = False
    no_report: bool = False
    serve: str | None = None
    open_to: Literal["machine", "network"] | None = None
    certificate: str | None = None
    key: str | None = None


class TryRequest(Frozen, frozen=True, kw_only=True):
    """Try changes to a program from outside, and measure what each brings.

    The program runs in short turns, as it is and with one change, until its budget is
    used up or nothing is left to try. What helps is kept. RULE is the id of a finding;
    by default the changes answer all findings of the program's report, in their order.
    No file of the program is changed. The exit status is that of the last turn, or 0 if
    its steps were over before it ended.
    """

    rule: str | None = None
    program: tuple[str, ...] | None = None
    budget: str = "10m"
    allow_numerics: bool = False
    store: bool = False
    logdir: str = _LOG_DIRECTORY
    form: str = "text"
    output: str | None = None
    force: bool = False


class CaptureRequest(Frozen, frozen=True, kw_only=True):
    """Record running programs that have a profiler server, then report.

    ADDRESS is host:port of a profiler server in the program, started by stepscope run
    --serve, ss.server.start, tf.profiler.experimental.server.start or
    jax.profiler.start_server. Several programs are recorded at the same time, as hosts
    of one run. ADDRESS can also be @FILE (the addresses in a file), unix:/PATH (a Unix
    socket) or tpu://NAME:PORT (this port of each worker of a Cloud TPU).
    """

    addresses: tuple[str, ...]
    attach: tuple[int, ...] = ()
    duration_ms: int | None = None
    steps: int | None = None
    delay_ms: int = 0
    attempts: int = 3
    logdir: str = _LOG_DIRECTORY
    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    token: str | None = None
    certificate: str | None = None
    max_bytes: int = 4 * 2**30
    allow_partial: bool = False
    form: Literal["text", "json"] = "text"
    no_report: bool = False


class ServeRequest(Frozen, frozen=True, kw_only=True):
    """Show the profiles of a log directory in a browser.

    LOGDIR is a log directory, a run directory, a trace file, or the URL of one of these
    (s3://…, gs://…). New profiles appear automatically.
    """

    logdir: str
    host: str = "127.0.0.1"
    port: int = 6007
    kernels: str | None = None
    source: tuple[str, ...] = ()
    capture: tuple[str, ...] = ()
    capture_token: str | None = None


class DoctorRequest(Frozen, frozen=True, kw_only=True):
    """Check what this machine can record, and how to fix what it cannot.

    With PATH: list what the recording of that log directory, run or file lacks, and
    why. The exit status is 1 if something cannot be recorded at all, or was lost.

    With -- COMMAND: run that program once to its end, and measure the size of a
    recording and the slowdown that it causes. The exit status is the program's own.
    """

    path: str | None = None
    program: tuple[str, ...] | None = None
    logdir: str = _LOG_DIRECTORY
    form: Literal["text", "json"] = "text"


class NsysRequest(Frozen, frozen=True, kw_only=True):
    """Record a program with Nsight Systems, then report.

    The exit status is that of the program.
    """

    command: tuple[str, ...]
    range: str | None = None
    profiler_api: bool = False
    delay_s: int = 0
    duration_s: int | None = None
    output: str = "timeline"
    force: bool = False
    no_report: bool = False


class NcuRequest(Frozen, frozen=True, kw_only=True):
    """Measure the kernels of a program with Nsight Compute.

    Nsight Compute executes each kernel many times and alone, so the program takes much
    longer, and its times are meaningless. The exit status is that of the program.
    """

    command: tuple[str, ...]
    beside: str | None = None
    op: str | None = None
    kernels: tuple[str, ...] = ()
    range: str | None = None
    profiler_api: bool = False
    skip: int = 0
    launches: int = 100
    sections: str = "full"
    output: str = "kernels"
    force: bool = False


class CompletionRequest(Frozen, frozen=True, kw_only=True):
    """Print the script with which a shell completes the command line.

    Let your shell read it at its start, for example by stepscope completion bash >>
    ~/.bashrc, stepscope completion zsh >> ~/.zshrc, or stepscope completion fish >
    ~/.config/fish/completions/stepscope.fish. It completes commands, options, tools,
    rules, formats, runs and files.
    """

    shell: Literal["bash", "zsh", "fish"]


class DemoRequest(Frozen, frozen=True, kw_only=True):
    """Record a small training loop on this machine, and report on it.

    The loop uses PyTorch, JAX or TensorFlow if one of them is installed, and
    otherwise NumPy alone. The output is like that of `stepscope run` for your own
    program.
    """
