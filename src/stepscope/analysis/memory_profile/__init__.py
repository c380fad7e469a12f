"""Memory profile: what was allocated, when, and by which op."""

from stepscope.analysis.memory_profile.profile import (
    MemoryProfileResult,
    Options,
    analyse,
)

__all__ = ["MemoryProfileResult", "Options", "analyse"]
