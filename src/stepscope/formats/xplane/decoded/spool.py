"""A recording that was not finished: fragments, the last of which may be torn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepscope.xspace.merging.merge import Part, merge_messages, whole_length
from stepscope.xspace.reading.columns import Damage
from stepscope.xspace.reading.decode import decode_bytes
from stepscope.xspace.reading.source import open_bytes
from stepscope.xspace.vocabulary import FORWARDED_PLANE, HOST_PLANE

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.xspace.reading.columns import XSpace


def read_spool(path: Path, *, limit_bytes: int) -> XSpace:
    """Read the whole fragments of a spool as one message.

    Args:
        path: The file, which may grow meanwhile.
        limit_bytes: Largest content of a packed file.

    Raises:
        BadInput: It cannot be read, or holds no whole fragment.
    """
    # It may be shortened while it is read, which a mapping would not survive.
    data, damage = open_bytes(path, limit_bytes=limit_bytes, mapped=False)
    whole = whole_length(data)
    try:
        merged = merge_messages(
            [Part(data=data[:whole])],
            renamed={FORWARDED_PLANE: HOST_PLANE},
            join_lines=True,
            keep_first=False,
        )
    except ValueError:
        # Broken inside: what can be read of it, fragment by fragment.
        return decode_bytes(data.tobytes(), str(path), limit_bytes=limit_bytes)
    space = decode_bytes(merged, str(path), limit_bytes=limit_bytes)
    if whole < len(data):
        torn = "the file ends within what was being written"
        damage = (*damage, Damage(whole, torn, len(data) - whole))
    return msgspec.structs.replace(space, damage=(*damage, *space.damage))
