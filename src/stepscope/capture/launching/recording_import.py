"""What records is imported when there is something to record, while others import."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stepscope.capture.recording.session import Session

_SESSION: Final = "stepscope.capture.recording.session"


def session_class() -> type[Session]:
    """Return what records.

    Raises:
        StepscopeError: This interpreter lacks a package that recording needs.
    """
    try:
        from stepscope.capture.recording.session import Session  # noqa: PLC0415
    except ImportError as missing:
        from stepscope.errors import StepscopeError  # noqa: PLC0415 - arming stays light

        raise StepscopeError(
            f"the program runs in {sys.executable}, which cannot record: {missing}. "
            f"Install stepscope there too: {sys.executable} -m pip install stepscope"
        ) from missing
    return Session


def is_half_imported() -> bool:
    """Return whether the program is importing what records at this moment."""
    spec = getattr(sys.modules.get(_SESSION), "__spec__", None)
    return getattr(spec, "_initializing", False)
