"""Names of the views of a model's trees."""

from typing import Final, Literal

#: Views in which every execution belongs to exactly one node.
View = Literal["scope", "graph", "op", "code"]
VIEWS: Final[tuple[View, ...]] = ("scope", "graph", "op", "code")
#: All views: also those by source line and by named range, which may lack executions.
AnyView = Literal["scope", "graph", "op", "code", "source", "annotation"]
SOURCE: Final = "source"
ANNOTATION: Final = "annotation"
SHOWN: Final[tuple[AnyView, ...]] = (*VIEWS, SOURCE, ANNOTATION)
