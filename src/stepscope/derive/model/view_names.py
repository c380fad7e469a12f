"""The names of the views of a model."""

from typing import Final, Literal

#: Views in which every execution is at exactly one node.
View = Literal["scope", "graph", "op", "code"]
VIEWS: Final[tuple[View, ...]] = ("scope", "graph", "op", "code")
#: Also the views by source line and by named range, which may lack some executions.
AnyView = Literal["scope", "graph", "op", "code", "source", "annotation"]
SOURCE: Final = "source"
ANNOTATION: Final = "annotation"
SHOWN: Final[tuple[AnyView, ...]] = (*VIEWS, SOURCE, ANNOTATION)
