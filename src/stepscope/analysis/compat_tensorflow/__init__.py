"""The numbers that TensorFlow itself computed at capture time, as an oracle for tests.

TensorFlow counts copies as compute, and defines a step as the time from the first to
the last device activity. The numbers of this package equal TensorFlow's to the
nanosecond. The tools' own numbers differ where TensorFlow is wrong; the tools' pages in
docs/tools explain how.

Definition: docs/definitions/compatibility.md.
"""

from stepscope.analysis.compat_tensorflow.analyzer import (
    PRODUCER,
    input_pipeline_analyzer,
    overview_page,
)

__all__ = ["PRODUCER", "input_pipeline_analyzer", "overview_page"]
