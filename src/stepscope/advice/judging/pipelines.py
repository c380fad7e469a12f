"""What to do about a pipeline of tf.data, by what it does already.

Definition: docs/advice/input_bound.md.
"""

from __future__ import annotations

from typing import Final

from stepscope.advice.finding import Action

__all__ = ["KERAS_WORKERS", "TO_FETCH_AHEAD", "WHOLE_BATCHES"]

#: Where Python makes them for a dataset of Keras, which can hand it to processes.
KERAS_WORKERS: Final = (
    Action(
        cause="fetch",
        framework="TensorFlow",
        text="Let the dataset's own worker processes make its batches ahead, and read "
        "once what is the same in every epoch.",
        code="PyDataset.__init__(self, workers=4, use_multiprocessing=True)",
    ),
)
#: Where a parallel stage is called for each element, and calls are most of its work.
WHOLE_BATCHES: Final = (
    Action(
        cause="fetch",
        framework="TensorFlow",
        text="Batch before mapping, and let the function work on whole batches: it is "
        "called for each element, and works only briefly each time.",
        code="dataset.batch(n).map(f_of_a_batch)",
    ),
)
#: Where elements are made in parallel, and a part of each batch when it is asked for.
TO_FETCH_AHEAD: Final = (
    Action(
        cause="fetch",
        framework="TensorFlow",
        text="Make batches ahead: the pipeline works in parallel, and does not end "
        "with a prefetch.",
        code="dataset.prefetch(tf.data.AUTOTUNE)",
    ),
)
