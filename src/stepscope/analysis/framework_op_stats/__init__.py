"""TensorFlow stats: time of each op, on host and device."""

from stepscope.analysis.framework_op_stats.stats import (
    FrameworkOpStatsResult,
    Options,
    analyse,
)

__all__ = ["FrameworkOpStatsResult", "Options", "analyse"]
