"""tf.data bottleneck analysis: which stage of a pipeline limits it."""

from stepscope.analysis.tf_data_bottleneck_analysis.bottleneck import (
    NEEDS,
    Options,
    TfDataBottleneckAnalysisResult,
    analyse,
)

__all__ = ["NEEDS", "Options", "TfDataBottleneckAnalysisResult", "analyse"]
