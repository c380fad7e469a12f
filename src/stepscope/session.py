"""`open`: from paths to a profile whose tools can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis import analyse
from stepscope.derive.profile_data import ProfileData
from stepscope.formats import open_hosts

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["open_profile"]


def open_profile(*paths: str | PathLike[str]) -> ProfileData:
    """Read a log directory (its newest run), a run directory, or files.

    Several paths are several workers of one run.

    Raises:
        BadInput: A path cannot be read as a profile; the message names the file, what
            was wrong and the way out.
    """
    run, traces = open_hosts(*paths)
    return ProfileData(run, traces, analyse=analyse)
