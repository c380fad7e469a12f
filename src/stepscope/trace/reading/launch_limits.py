"""What no kernel launch exceeds: values beyond it were never written, or damaged.

Limits of every GPU built so far (CUDA programming guide, compute capabilities): 255
registers a thread, 1,024 threads a block, 227 KiB of shared memory. The first and the
last are taken generously, so that the next generation is not refused.
"""

from __future__ import annotations

from typing import Final

MOST_REGISTERS: Final = 512
MOST_THREADS: Final = 1024
MOST_GRID: Final = 2**31 - 1
MOST_SHARED_BYTES: Final = 2**20
