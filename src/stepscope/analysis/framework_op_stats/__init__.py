"""TensorFlow stats: time of each op, on host and device."""

from stepscope.analysis.framework_op_stats.result import FrameworkOpStatsResult
from stepscope.analysis.framework_op_stats.stats import NEEDS, analyse
from stepscope.analysis.options import FrameworkOpStatsOptions as Options

__all__ = ["NEEDS", "FrameworkOpStatsResult", "Options", "analyse"]
