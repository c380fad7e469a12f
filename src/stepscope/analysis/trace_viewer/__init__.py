"""Trace viewer: every event on its line, and arrows between them."""

from stepscope.analysis.trace_viewer.viewer import (
    Options,
    TraceViewerResult,
    analyse,
)

__all__ = ["Options", "TraceViewerResult", "analyse"]
