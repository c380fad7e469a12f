"""How an annotation of ours travels through a profiler that keeps names only.

PyTorch's profiler records the name of a range and nothing else, and its export makes
"unknown" of most characters. So name and values are packed into letters and digits, and
whoever reads a profile unpacks them: people never see the packed form.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Names of annotations that we forwarded begin so, then come name and values.
_PREFIX: Final = "stepscope."
_NAME_AND_VALUES: Final = msgspec.json.Decoder(tuple[str, Raw])


class Forwarded(Frozen, frozen=True, eq=True):
    """An annotation as the program made it.

    Attributes:
        name: Its name.
        values: JSON of its values by name.
    """

    name: str
    values: Raw


def forwarded_name(name: str, values: Mapping[str, object]) -> str:
    """Return the name under which another profiler records our annotation.

    Letters and digits only: of anything else PyTorch's export makes "unknown", or a
    document that nobody can read (2.11 and 2.13).
    """
    both = msgspec.json.encode((name, values), enc_hook=_plain)
    return f"{_PREFIX}{urlsafe_b64encode(both).decode()}"


def forwarded(name: str) -> Forwarded | None:
    """Return what was forwarded under a name; None of one that is not ours."""
    if not name.startswith(_PREFIX):
        return None
    try:
        return Forwarded(
            *_NAME_AND_VALUES.decode(urlsafe_b64decode(name.removeprefix(_PREFIX)))
        )
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, ValueError):
        return None


def _plain(value: object) -> object:
    """Return a number of a library as a number, anything else as its text."""
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)
