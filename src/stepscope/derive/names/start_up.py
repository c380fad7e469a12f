"""Names of compilers, and of calls with which a program starts to use a device.

`start_up.json` lists the patterns. `contexts` are calls that only a process makes that
has not used the device before; `loads` also occur later, whenever something is new.

Definition: docs/definitions/host-time.md#classes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

_PATTERNS: Final = msgspec.json.decode(
    Path(__file__).with_name("start_up.json").read_bytes(),
    type=dict[str, dict[str, str]],
)
COMPILERS: Final = "|".join(f"(?:{text})" for text in _PATTERNS["compilers"].values())
CONTEXTS: Final = "|".join(f"(?:{text})" for text in _PATTERNS["contexts"].values())
LOADS: Final = "|".join(f"(?:{text})" for text in _PATTERNS["loads"].values())
