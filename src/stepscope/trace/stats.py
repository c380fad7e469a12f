"""The types of values that producers attach to events and to types of events."""

from __future__ import annotations

from typing import Final

#: Values of the column `kind` of the tables `stats` and `type_stats`.
DOUBLE: Final = 2
UINT: Final = 3
INT: Final = 4
PLACE_TEXT: Final = 5
PLACE_BYTES: Final = 6
REF: Final = 7
