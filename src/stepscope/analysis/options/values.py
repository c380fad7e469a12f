"""Values of options that a help text calls by a name of their own.

Every interface reads an option's type, default and sentence from its Struct; the title
is the placeholder of the value in the help of the command line.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

#: Calls that are listed unless all are asked for; their number is always given.
MOST_CALLS: Final = 1000

Name = Annotated[str, msgspec.Meta(title="NAME")]
Prefix = Annotated[str, msgspec.Meta(title="PREFIX")]
Flag = Annotated[str, msgspec.Meta(title="FLAG")]
Column = Annotated[str, msgspec.Meta(title="COLUMN")]
#: Commas are part of it: several are given one by one.
Regex = Annotated[str, msgspec.Meta(title="REGEX", extra={"holds_commas": True})]
