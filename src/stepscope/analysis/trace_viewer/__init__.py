"""Trace viewer: every event on its line, and arrows between them."""

from stepscope.analysis.options import TraceViewerOptions as Options
from stepscope.analysis.trace_viewer.viewer import NEEDS, TraceViewerResult, analyse

__all__ = ["NEEDS", "Options", "TraceViewerResult", "analyse"]
