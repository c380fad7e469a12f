"""Why something is missing, as tables of reasons declare it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stepscope.remedies import Remedy
from stepscope.trace.schema import read_rows
from stepscope.unavailable import Unavailable


def read_reasons(path: Path) -> dict[str, Unavailable]:
    """Read rows of key, code, reason, and remedy or its id."""
    return {
        key: Unavailable(
            code=code,
            reason=reason,
            remedy=Remedy[remedy] if remedy.isupper() else remedy,
        )
        for key, code, reason, remedy in read_rows(path.read_text(encoding="utf-8"))
    }


#: Key → why derivations have no value, or miss a part of it.
WHY: Final = read_reasons(Path(__file__).with_name("reasons.md"))
