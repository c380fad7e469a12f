"""Which ranges are calls into an input pipeline."""

from __future__ import annotations

from typing import Final

from stepscope.patterns import Pattern

#: How PyTorch names the range around each batch that a DataLoader hands over.
_LOADER_CALL: Final = Pattern(r"enumerate\(\w+\)#.*__next__")


def is_loader_call(name: str) -> bool:
    """Return whether a range of this name is one call of a DataLoader's iterator."""
    return _LOADER_CALL.match(name) is not None
