"""Tools: each computes one frozen result from the data of a profile.

A new tool needs one file and one line in `TOOLS`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import msgspec

from stepscope.analysis.results.fitting_remedies import with_fitting_remedies
from stepscope.analysis.results.tool import Tool
from stepscope.derive.consistency import consistency
from stepscope.derive.host.tracers import tracers
from stepscope.derive.profile_data import ProfileData, Reader
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stepscope.analysis import (
        framework_op_stats,
        inference_profile,
        input_pipeline_analyzer,
        kernel_stats,
        memory_profile,
        model_views,
        overview_page,
        pod_viewer,
        roofline_model,
        tf_data_bottleneck_analysis,
        trace_viewer,
    )
    from stepscope.analysis.model_views.annotation_rows import TopAnnotation
    from stepscope.derive.profile_data import Wanted
    from stepscope.unavailable import Unavailable

TOOLS: Final[tuple[Tool, ...]] = (
    Tool(
        "overview_page",
        ("overview",),
        "Overview page",
        compat={"tensorflow": "compat_tensorflow"},
    ),
    Tool(
        "input_pipeline_analyzer",
        ("input", "input_pipeline"),
        "Input pipeline analyzer",
        compat={"tensorflow": "compat_tensorflow"},
    ),
    Tool("framework_op_stats", ("ops", "tensorflow_stats"), "TensorFlow stats"),
    Tool("kernel_stats", ("kernels", "gpu_kernel_stats"), "GPU kernel stats"),
    Tool("roofline_model", ("roofline",), "Roofline model"),
    Tool("memory_profile", ("memory",), "Memory profile"),
    Tool("pod_viewer", ("pod",), "Pod viewer"),
    Tool("trace_viewer", ("trace", "trace_viewer@"), "Trace viewer"),
    Tool(
        "tf_data_bottleneck_analysis",
        ("tfdata", "tf_data"),
        "tf.data bottleneck analysis",
    ),
    Tool("inference_profile", ("inference",), "Inference profile"),
    Tool("model_views", ("model",), "Model views"),
)


#: Name of the option that asks for the producer's own numbers.
COMPAT: Final = "compat"
#: Data that every tool reads in addition to its own needs: notes on data quality, and
#: the tracers that were on (for remedies).
_DOUBTS: Final[tuple[Wanted, ...]] = ("quality", consistency, tracers)


def find_tool(name: str) -> Tool:
    """Find the tool with a name or a short name.

    Raises:
        BadUsage: No tool has the name; the message lists the known names.
    """
    for tool in TOOLS:
        if name == tool.name or name in tool.aliases:
            return tool
    known = [f"{tool.name} ({', '.join(tool.aliases)})" for tool in TOOLS]
    raise BadUsage.unknown_name("tool", name, known)


def tool_needs(name: str) -> tuple[Wanted, ...]:
    """Return the data that a tool and its notes on data quality read."""
    return *find_tool(name).needs, *_DOUBTS


def tool_answers(
    profile: ProfileData,
    names: Iterable[str],
    *,
    also: Iterable[Wanted] = (),
    readers: Iterable[Reader] = (),
    begun: Callable[[Tool], None] = lambda _: None,
) -> dict[str, Any]:
    """Run several tools with default options; in parallel if that is faster.

    The tables and derivations in `also` are prepared at the same time, and the
    functions in `readers` run at the same time. `begun` is called with each tool when
    the tool starts, from any thread.
    """
    tools = [find_tool(name) for name in names]
    # The type is `Any`, because a tool loaded by name defines its result's class.
    results: dict[str, Any] = {}

    def reader(tool: Tool) -> Reader:
        def run() -> None:
            begun(tool)
            results[tool.name] = with_fitting_remedies(
                profile, tool.analyse(profile, tool.options())
            )

        return Reader(tool.needs, run)

    of_tools = [reader(tool) for tool in tools]
    profile.prepare((*_DOUBTS, *also), readers=[*of_tools, *readers])
    return {tool.name: results[tool.name] for tool in tools}


class ToolResults(dict[str, Any]):
    """Result of each tool by its name; a tool runs when its result is first read."""

    def __init__(self, profile: ProfileData, known: dict[str, Any]) -> None:
        super().__init__(known)
        self._profile = profile

    def __missing__(self, tool: str) -> Any:
        """Run the tool."""
        self |= tool_answers(self._profile, [tool])
        return self[tool]

    def top_annotations(self, count: int) -> tuple[TopAnnotation, ...]:
        """Return the named ranges of the program with the most host time, if any."""
        # Imported late because few reports show annotations.
        from stepscope.analysis.model_views.annotation_rows import (  # noqa: PLC0415
            top_annotations,
        )

        return top_annotations(self._profile, count)


def analyse(
    profile: ProfileData, name: str, options: Mapping[str, Any]
) -> msgspec.Struct | Unavailable:
    """Run a tool, with options by name.

    If the tool has `compat` producers, the option `compat` selects the producer whose
    rules the returned numbers follow.

    Raises:
        BadUsage: The tool, an option, or the value of an option is not valid.
    """
    tool = find_tool(name)
    own = dict(options)
    producer = own.pop(COMPAT, "") if tool.compat else ""
    known = tool.options.__struct_fields__
    for option in own:
        if option not in known:
            raise BadUsage.unknown_name(f"option of {tool.name}", option, known)
    if producer and producer not in tool.compat:
        raise BadUsage.unknown_name("producer", str(producer), tool.compat)
    try:
        chosen = msgspec.convert(own, tool.options)
    except msgspec.ValidationError as error:
        raise BadUsage(f"{tool.name}: {error}") from error
    profile.prepare(tool.needs)
    run = tool.analyse_as(producer) if producer else tool.analyse
    return with_fitting_remedies(profile, run(profile, chosen))


class ProfileWithTools(ProfileData):
    """A run, all derivations of its traces, and its tools.

    Attributes:
        run: Displayed name of the run.
        traces: Host → tables of the host.
    """

    def __repr__(self) -> str:
        """Return the run with its size and its hosts."""
        return f"<{self.run}: {self.event_count} events of {self.hosts}>"

    def _repr_html_(self) -> str | None:
        """Return the page in a frame, for a notebook; None if the page is not built.

        The page is further along the data flow, and is loaded where it is shown.
        """
        page = importlib.import_module("stepscope.serve.saved.frame")
        frame: str | None = page.frame_of_page(self)
        return frame

    def to_html(self, *, redact: bool = False) -> str:
        """Return the page with all answers, as `report --format html` writes it.

        Args:
            redact: Whether to replace names by hashes.

        Raises:
            BadUsage: The page is not built.
        """
        page = importlib.import_module("stepscope.serve.saved.html_file")
        html: bytes = page.write_html(self, is_redacted=redact)[0]
        return html.decode()

    @overload
    def tool(
        self, name: Literal["overview_page", "overview"], **options: Any
    ) -> overview_page.OverviewPageResult | Unavailable: ...
    @overload
    def tool(
        self,
        name: Literal["input_pipeline_analyzer", "input", "input_pipeline"],
        **options: Any,
    ) -> input_pipeline_analyzer.InputPipelineResult | Unavailable: ...
    @overload
    def tool(
        self,
        name: Literal["framework_op_stats", "ops", "tensorflow_stats"],
        **options: Any,
    ) -> framework_op_stats.FrameworkOpStatsResult | Unavailable: ...
    @overload
    def tool(
        self,
        name: Literal["kernel_stats", "kernels", "gpu_kernel_stats"],
        **options: Any,
    ) -> kernel_stats.KernelStatsResult | Unavailable: ...
    @overload
    def tool(
        self, name: Literal["roofline_model", "roofline"], **options: Any
    ) -> roofline_model.RooflineModelResult | Unavailable: ...
    @overload
    def tool(
        self, name: Literal["memory_profile", "memory"], **options: Any
    ) -> memory_profile.MemoryProfileResult | Unavailable: ...
    @overload
    def tool(
        self, name: Literal["pod_viewer", "pod"], **options: Any
    ) -> pod_viewer.PodViewerResult | Unavailable: ...
    @overload
    def tool(
        self, name: Literal["trace_viewer", "trace", "trace_viewer@"], **options: Any
    ) -> trace_viewer.TraceViewerResult | Unavailable: ...
    @overload
    def tool(
        self,
        name: Literal["tf_data_bottleneck_analysis", "tfdata", "tf_data"],
        **options: Any,
    ) -> tf_data_bottleneck_analysis.TfDataBottleneckAnalysisResult | Unavailable: ...
    @overload
    def tool(
        self, name: Literal["inference_profile", "inference"], **options: Any
    ) -> inference_profile.InferenceProfileResult | Unavailable: ...
    @overload
    def tool(
        self, name: Literal["model_views", "model"], **options: Any
    ) -> model_views.ModelViewsResult | Unavailable: ...
    @overload
    def tool(self, name: str, **options: Any) -> msgspec.Struct | Unavailable: ...
    def tool(self, name: str, **options: Any) -> msgspec.Struct | Unavailable:
        """Run a tool with its options; return a frozen result, or `Unavailable`.

        Raises:
            BadUsage: The tool, an option, or the value of an option is not valid.
        """
        return analyse(self, name, options)
