"""Garbage that Python is about to collect, collected before a recording's window opens.

Python collects where it allocates, whoever does. What starts a recording imports
modules, thousands of objects, and the threads that record allocate as well: the next
collection of all objects of the program would come soon, on a thread of ours, and hold
up the first steps for as long as it takes: hundreds of milliseconds in a large program.
"""

from __future__ import annotations

import gc
from typing import Final

#: So many collections of the middle generation are as good as due: a recording's own
#: threads make one in some seconds.
_NEAR: Final = 2
#: So many collections of the youngest are between them, and this many more are enough.
_MOST: Final = 64


def collect_what_is_due() -> None:
    """Let Python collect all objects now, if it would before long.

    Objects are made until it decides by its own rules, so that nothing is collected
    that it would leave. Nothing happens where the program collects by itself
    (`gc.disable()`), or has set the last generation aside.
    """
    youngest, _, oldest = gc.get_threshold()
    if not gc.isenabled() or not youngest or not oldest:
        return
    for _ in range(_MOST):
        before = gc.get_count()[2]
        if before <= oldest - _NEAR:
            return
        made: list[list[int]] = [[] for _ in range(youngest + 1)]
        del made
        if before > oldest and gc.get_count()[2] >= before:
            # It could have, and did not: too few objects are new.
            return
