"""Options of `roofline_model`."""

from __future__ import annotations

from typing import Annotated

import msgspec

_Rate = Annotated[float, msgspec.Meta(gt=0, le=1e9, title="RATE")]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to hold the work against.

    Attributes:
        peak_tflops: Operations that the device computes at best, in 10^12 per second,
            in place of what is known of it.
        peak_gb_per_s: Bytes that its memory moves at best, in 10^9 per second, in place
            of what is known of it.
    """

    peak_tflops: _Rate | None = None
    peak_gb_per_s: _Rate | None = None
