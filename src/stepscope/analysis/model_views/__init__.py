"""Model views: time, memory and work by scope, op, graph, code and named range."""

from stepscope.analysis.model_views.views import (
    NEEDS,
    AnnotationDetailResult,
    ModelViewsResult,
    analyse,
)
from stepscope.analysis.options import ModelViewsOptions as Options

__all__ = ["NEEDS", "AnnotationDetailResult", "ModelViewsResult", "Options", "analyse"]
