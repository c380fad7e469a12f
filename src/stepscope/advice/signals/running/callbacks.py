"""Functions of the program that a compiled step of JAX calls back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Part
from stepscope.advice.signals.shares import account_signals
from stepscope.advice.signals.signal import signal
from stepscope.derive.host.called_below import called_most
from stepscope.derive.host.function_frames import function_frames
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals.shares import AccountSignals
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["called_back"]

#: `jax.pure_callback`, `io_callback`, as ops; those for debugging are another matter.
_OPS: Final = Pattern(r"^(?:pure|io)_callback(?:\.\d+)?$")
#: What they call first.
_CALLED_BY_OP: Final = Pattern(r"^(?:pure|io)_callback_impl$")


@signal(function_frames, reads=(account_signals,), seldom=True)
def called_back(
    profile: ProfileData, _: Thresholds, account: AccountSignals | Unavailable
) -> dict[str, Part]:
    """Return the function that ops call back most, of the hosts without devices.

    Its share is that of the ops: the threads that they run on are looked at too seldom.
    """
    found = {}
    for one in () if isinstance(account, Unavailable) else account.shares:
        work = one.named("host_compute", place="inside")
        frames = profile.derived(one.host, function_frames)
        if (
            one.device is not None
            or isinstance(frames, Unavailable)
            or not any(_OPS.match(part.name or "") for part in work)
        ):
            continue
        function = called_most(frames, _CALLED_BY_OP)
        if function is None:
            continue
        key = (function.function, function.file, function.line)
        time_ps = sum(
            part.time_ps
            for part in work
            if _OPS.match(part.name or "")
            or (part.function, part.file, part.line) == key
        )
        found[one.host] = Part.of_function(
            function, 100 * time_ps / max(one.total_ps, 1)
        )
    return found
