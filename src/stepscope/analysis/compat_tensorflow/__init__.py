"""What TensorFlow itself computed at capture time, as an oracle for tests and sceptics.

TensorFlow counts copies as compute and takes the device's span for the step. The
numbers here follow it to the nanosecond; the tools' own numbers differ where TensorFlow
is wrong, and their pages in docs/tools say how.

Definition: docs/definitions/compatibility.md.
"""

from stepscope.analysis.compat_tensorflow.analyzer import (
    PRODUCER,
    input_pipeline_analyzer,
    overview_page,
)

__all__ = ["PRODUCER", "input_pipeline_analyzer", "overview_page"]
