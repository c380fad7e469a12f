"""TensorFlow stats: time of each op, on host and device."""

from stepscope.analysis.framework_op_stats.stats import (
    NEEDS,
    FrameworkOpStatsResult,
    Options,
    analyse,
)

__all__ = ["NEEDS", "FrameworkOpStatsResult", "Options", "analyse"]
