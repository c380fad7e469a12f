"""Reader of an unfinished recording, whose last fragment may be incomplete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepscope.xspace.merging.merge import Part, complete_length, merge_messages
from stepscope.xspace.reading.columns import Damage
from stepscope.xspace.reading.decode import decode_bytes
from stepscope.xspace.reading.source import open_bytes
from stepscope.xspace.vocabulary import FORWARDED_PLANE, HOST_PLANE

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.xspace.reading.columns import XSpace


def read_spool(path: Path, *, limit_bytes: int) -> XSpace:
    """Read the complete fragments of a spool file as one message.

    Args:
        path: The file, which may grow while it is read.
        limit_bytes: Maximum size of a decompressed file, in bytes.

    Raises:
        BadInput: The file cannot be read, or holds no complete fragment.
    """
    # The file may shrink while it is read; reading a mapped file would then crash.
    data, damage = open_bytes(path, limit_bytes=limit_bytes, mapped=False)
    complete_bytes = complete_length(data)
    try:
        merged = merge_messages(
            [Part(data=data[:complete_bytes])],
            renamed={FORWARDED_PLANE: HOST_PLANE},
            join_lines=True,
            keep_first=False,
        )
    except ValueError:
        # A fragment is damaged inside: decode all readable fragments.
        return decode_bytes(data.tobytes(), str(path), limit_bytes=limit_bytes)
    space = decode_bytes(merged, str(path), limit_bytes=limit_bytes)
    if complete_bytes < len(data):
        torn = "the file ends inside an unfinished fragment"
        damage = (*damage, Damage(complete_bytes, torn, len(data) - complete_bytes))
    return msgspec.structs.replace(space, damage=(*damage, *space.damage))
