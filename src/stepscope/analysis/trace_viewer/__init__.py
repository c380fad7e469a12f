"""Trace viewer: every event on its track, and arrows from launches to device work."""

from stepscope.analysis.options import TraceViewerOptions as Options
from stepscope.analysis.trace_viewer.viewer import NEEDS, TraceViewerResult, analyse

__all__ = ["NEEDS", "Options", "TraceViewerResult", "analyse"]
