"""Setters of the knobs of tf.data and Keras."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from stepscope.capture.base.functions import replace_function
from stepscope.errors import NO_FRAME
from stepscope.trials.inside.torch_setters import replace_argument

if TYPE_CHECKING:
    from stepscope.trials.inside.plan import Value
    from stepscope.trials.inside.setters import Note


def set_parallel_calls(name: str, value: Value, note: Note) -> None:
    """Let `map` and `interleave` of tf.data choose their parallelism themselves."""
    datasets: Any = sys.modules["tensorflow.python.data.ops.dataset_ops"]
    for method in ("map", "interleave"):
        replace_argument(
            datasets.DatasetV2,
            method,
            name,
            value,
            note=note,
            says=method,
            fits=lambda arguments: arguments.get(name) is None,
        )


def change_iterated_dataset(name: str, value: Value, note: Note) -> None:
    """Change each dataset over which the program or Keras iterates."""
    datasets: Any = sys.modules["tensorflow.python.data.ops.dataset_ops"]
    iterate = datasets.DatasetV2.__iter__
    tensorflow: Any = sys.modules["tensorflow"]

    @functools.wraps(iterate)
    def change_and_iterate(self: Any) -> Any:
        changed = self
        if name == "prefetch":
            if type(self).__name__ != "_PrefetchDataset":
                changed = self.prefetch(value)
        else:
            options, before = tensorflow.data.Options(), self.options()
            if name == "deterministic":
                options.deterministic, known = value, before.deterministic
            else:
                options.threading.private_threadpool_size = value
                known = before.threading.private_threadpool_size
            if known != value:
                changed = self.with_options(options)
        note(f"dataset: {name} {value}", same=changed is self)
        with NO_FRAME:
            return iterate(changed)

    replace_function(datasets.DatasetV2, "__iter__", change_and_iterate)


def set_compile_argument(name: str, value: Value, note: Note) -> None:
    """Set a parameter of `Model.compile`."""
    trainer: Any = sys.modules["keras.src.trainers.trainer"].Trainer
    replace_argument(trainer, "compile", name, value, note=note, says="Model.compile")


def set_policy(name: str, value: Value, note: Note) -> None:
    """Set the dtype policy of the layers that are created from now on."""
    del name
    keras: Any = sys.modules["keras"]
    keras.config.set_dtype_policy(value)
    note(f"dtype policy {value}")
