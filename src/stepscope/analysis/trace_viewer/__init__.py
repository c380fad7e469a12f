"""Trace viewer: every event on its line, and arrows between them."""

from stepscope.analysis.options.trace_viewer import Options
from stepscope.analysis.trace_viewer.viewer import NEEDS, TraceViewerResult, analyse

__all__ = ["NEEDS", "Options", "TraceViewerResult", "analyse"]
