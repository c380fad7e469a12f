"""The views of a model by name."""

from typing import Final, Literal

#: Views in which everything that ran is at exactly one node.
View = Literal["scope", "graph", "op", "code"]
VIEWS: Final[tuple[View, ...]] = ("scope", "graph", "op", "code")
#: The lines of the program; the ranges that it named, which need not hold everything.
AnyView = Literal["scope", "graph", "op", "code", "source", "annotation"]
SOURCE: Final = "source"
ANNOTATION: Final = "annotation"
SHOWN: Final[tuple[AnyView, ...]] = (*VIEWS, SOURCE, ANNOTATION)
