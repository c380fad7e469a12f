"""Pod viewer: the workers of a run side by side."""

from stepscope.analysis.pod_viewer.viewer import (
    Options,
    PodViewerResult,
    analyse,
)

__all__ = ["Options", "PodViewerResult", "analyse"]
