"""Model views: time, memory and work by scope, op, graph, code and named range."""

from stepscope.analysis.model_views.result import (
    AnnotationDetailResult,
    ModelViewsResult,
)
from stepscope.analysis.model_views.views import NEEDS, analyse
from stepscope.analysis.options.model_views import Options

__all__ = ["NEEDS", "AnnotationDetailResult", "ModelViewsResult", "Options", "analyse"]
