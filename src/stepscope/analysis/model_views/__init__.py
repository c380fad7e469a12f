"""Model views: time, memory and work by scope, op, graph, code and named range."""

from stepscope.analysis.model_views.views import (
    AnnotationDetailResult,
    ModelViewsResult,
    Options,
    analyse,
)

__all__ = ["AnnotationDetailResult", "ModelViewsResult", "Options", "analyse"]
