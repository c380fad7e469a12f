"""Inference profile: latency of requests, and what it consists of."""

from stepscope.analysis.inference_profile.profile import (
    InferenceProfileResult,
    Options,
    analyse,
)

__all__ = ["InferenceProfileResult", "Options", "analyse"]
