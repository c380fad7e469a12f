"""A training loop without a GPU for Nsight Systems: ranges, and a loader thread.

    cc -shared -fPIC -I NVTX/include ranges.c -o ranges.so
    nsys profile --trace=osrt,nvtx --sample=none --cpuctxsw=none -o train \
        python nsight_program.py 12 ranges.so
    nsys export --type sqlite train.nsys-rep
    python strip_nsight.py train.sqlite train.sqlite.gz

`ranges.c` hands `push(name)` and `pop()` on to `nvtxRangePushA` and `nvtxRangePop`.
"""

import ctypes
import hashlib
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

NVTX = ctypes.CDLL(sys.argv[2])
BATCHES: queue.Queue[bytes] = queue.Queue(maxsize=1)


@contextmanager
def span(name: str) -> Iterator[None]:
    """Open a range for the length of a block."""
    NVTX.push(name.encode())
    yield
    NVTX.pop()


def load(count: int) -> None:
    """Make batches, more slowly than they are used."""
    for _ in range(count):
        time.sleep(0.004)
        BATCHES.put(bytes(2_000_000))


def main(count: int) -> None:
    """Run so many steps."""
    threading.Thread(target=load, args=(count,), name="loader").start()
    for step in range(count):
        with span(f"step {step}"):
            with span("load_batch"):
                batch = BATCHES.get()
            with span("train"):
                hashlib.sha256(batch).hexdigest()


main(int(sys.argv[1]))
