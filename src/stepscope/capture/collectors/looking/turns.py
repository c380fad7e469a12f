"""When to look: so many times a second, and not in time with the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope._core import recorder

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

#: More looks than this do not wait for a flush: it comes five times a second.
RING_LOOKS: Final = 4_096

_NS_PER_S: Final = 1_000_000_000
#: Looks come up to a quarter of a period early or late, so that they do not keep time
#: with the program; by the golden ratio the shifts are spread evenly.
_SHIFT: Final = 0.618_033_988_749_895
_SHIFTED: Final = 0.5


def turns(hz: float, stop: threading.Event) -> Iterator[int]:
    """Yield when each look is due, in ns of `recorder.now`, and wait until then.

    Turns that passed meanwhile are not made up for.

    Args:
        hz: Looks in a second.
        stop: Ends it.
    """
    period_ns = int(_NS_PER_S / hz)
    began_ns, turn, shift = recorder.now(), 0, 0.0
    while True:
        due_ns = began_ns + int((turn + _SHIFTED * shift) * period_ns)
        left_s = max(due_ns - recorder.now(), 0) / _NS_PER_S
        if stop.wait(left_s):
            return
        yield due_ns
        turn = max(turn + 1, (recorder.now() - began_ns) // period_ns + 1)
        shift = (shift + _SHIFT) % 1.0
