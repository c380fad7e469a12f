"""Model views: time, memory and work by scope, op, graph and code."""

from stepscope.analysis.model_views.views import (
    ModelViewsResult,
    Options,
    analyse,
)

__all__ = ["ModelViewsResult", "Options", "analyse"]
