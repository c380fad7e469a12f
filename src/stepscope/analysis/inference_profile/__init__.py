"""Inference profile: latency of requests, and what it consists of."""

from stepscope.analysis.inference_profile.profile import (
    NEEDS,
    InferenceProfileResult,
    Options,
    analyse,
)

__all__ = ["NEEDS", "InferenceProfileResult", "Options", "analyse"]
