"""Why derivations have no value, as declared in `reasons.md`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stepscope.trace.schema import read_reasons

#: Key → why derivations have no value, or lack a part of it.
WHY: Final = read_reasons(Path(__file__).with_name("reasons.md"))
