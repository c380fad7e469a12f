"""Writing a whole trace for other viewers, compressed where the name says so."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Final

from stepscope.analysis.trace_viewer.events import all_spans
from stepscope.analysis.trace_viewer.processes import host_traces
from stepscope.cli.output import opened_output
from stepscope.report import to_json, to_trace_json
from stepscope.report.envelope import describe, doubts

if TYPE_CHECKING:
    from stepscope.analysis.trace_viewer import TraceViewerResult
    from stepscope.derive.profile_data import ProfileData

#: Level of compression: traces are so repetitive that a low one removes most bytes.
_EFFORT: Final = 5


def write(result: TraceViewerResult, profile: ProfileData, output: str | None) -> None:
    """Write the trace of a profile into a file, or to standard output."""
    answer = to_json.envelope(
        "trace_viewer", result, profile=describe(profile), quality=doubts(profile)
    )
    hosts, _ = host_traces(profile)
    spans = all_spans(profile)
    with opened_output(output) as file:
        if output is None or not output.endswith(".gz"):
            to_trace_json.write_trace(answer, hosts, spans, file.write)
            return
        # Neither name nor time: equal profiles give equal files.
        with gzip.GzipFile("", "wb", _EFFORT, file, mtime=0) as packed:
            to_trace_json.write_trace(answer, hosts, spans, packed.write)
