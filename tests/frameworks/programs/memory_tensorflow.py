"""Tensors that fill the memory of TensorFlow's CPU allocator; a program, no test.

memory_tensorflow.py full|fragmented|healthy

TF_MKL_ALLOC_MAX_BYTES limits the allocator. What is held is allocated before the steps,
in pieces of 1 MiB: the truth is counted here, not read from the recording.
"""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf

import stepscope as ss

MIB = 1 << 20
#: Pieces that are allocated, of a memory of 256 MiB.
PIECES = 242
#: Fault or twin → the pieces that are kept.
KEPT = {
    "full": slice(None),
    "fragmented": slice(None, None, 2),
    "healthy": slice(PIECES // 2),
}


def piece() -> Any:
    return tf.random.uniform((MIB // 4,))


def main(fault: str) -> None:
    pieces = [piece() for _ in range(PIECES)]
    kept = pieces[KEPT[fault]]
    del pieces
    for step in range(24):
        with ss.StepTrace(step):
            tf.reduce_sum(piece() * 2.0).numpy()
    assert kept


if __name__ == "__main__":
    main(sys.argv[1])
