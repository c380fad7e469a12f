"""The views of a model by name."""

from typing import Final, Literal

__all__ = ["VIEWS", "View"]

View = Literal["scope", "graph", "op", "code"]
VIEWS: Final[tuple[View, ...]] = ("scope", "graph", "op", "code")
