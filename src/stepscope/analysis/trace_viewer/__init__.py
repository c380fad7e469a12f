"""Trace viewer: every event on its line, and arrows between them."""

from stepscope.analysis.trace_viewer.viewer import (
    NEEDS,
    Options,
    TraceViewerResult,
    analyse,
)

__all__ = ["NEEDS", "Options", "TraceViewerResult", "analyse"]
