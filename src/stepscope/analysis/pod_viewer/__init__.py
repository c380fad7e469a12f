"""Pod viewer: the workers of a run compared with each other."""

from stepscope.analysis.options import PodViewerOptions as Options
from stepscope.analysis.pod_viewer.result import PodViewerResult
from stepscope.analysis.pod_viewer.viewer import NEEDS, analyse

__all__ = ["NEEDS", "Options", "PodViewerResult", "analyse"]
