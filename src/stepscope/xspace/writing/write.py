"""Writing of a profile message, with builders for planes, lines, events and values.

    space = XSpaceBuilder("myhost", start_ns=begun, stop_ns=ended)
    plane = space.plane("/host:CPU")
    line = plane.line(thread_id, name="main")
    line.event("train", offset_ps=0, dur_ps=5_000_000, stats={"step_num": 0, "_r": 1})
    space.write(run / "myhost.xplane.pb")

TensorBoard and XProf can open the files: planes have distinct names, metadata ids start
at 1 and equal their keys, line times are relative to the start, events are sorted.

Definition: docs/formats/xplane.md#what-stepscope-writes.
"""

from __future__ import annotations

import os
from itertools import groupby
from typing import TYPE_CHECKING, Final

from stepscope.xspace.fields import PlaneTag, SpaceTag
from stepscope.xspace.writing.builders import Chunk, PlaneBuilder, Unsigned
from stepscope.xspace.writing.encode import encode_varint, sized_field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

#: Maximum size of a serialized message, in bytes.
_MESSAGE_LIMIT_BYTES: Final = 2**31 - 1
_SUFFIX: Final = ".xplane.pb"


class XSpaceBuilder:
    """Builder of the profile message of one host."""

    def __init__(
        self, hostname: str, *, start_ns: int | None, stop_ns: int | None = None
    ) -> None:
        """Begin a message.

        Args:
            start_ns: Begin of the recording since 1970; None leaves out the start time,
                as writers before 2024 did.
            stop_ns: End of the recording since 1970; may be set later, as an attribute.
        """
        self.hostname = hostname
        self.start_ns = start_ns
        self.stop_ns = stop_ns
        self._planes: dict[str, PlaneBuilder] = {}
        self._errors: list[str] = []
        self._warnings: list[str] = []

    def plane(self, name: str, *, plane_id: int = 0) -> PlaneBuilder:
        """Return the plane of this name, which is added if it is new."""
        if name not in self._planes:
            self._planes[name] = PlaneBuilder(name, plane_id=plane_id)
        return self._planes[name]

    def environment(self) -> PlaneBuilder:
        """Return the plane that describes the recording itself."""
        return self.plane("Task Environment")

    def error(self, text: str) -> None:
        """Add an error message about the recording."""
        self._errors.append(text)

    def warning(self, text: str) -> None:
        """Add a warning about the recording."""
        self._warnings.append(text)

    def dropped(self, count: int, cause: str) -> None:
        """Add a warning that events were lost, in the form that readers parse."""
        self.warning(f"dropped {count} events: {cause}")

    def to_bytes(self) -> bytes:
        """Encode the message.

        Raises:
            ValueError: The message exceeds 2 GiB; `write` splits it.
        """
        parts = self._split_parts(_MESSAGE_LIMIT_BYTES)
        if len(parts) > 1:
            raise ValueError("the message exceeds 2 GiB; write() splits it into files")
        return b"".join(parts[0])

    def write(
        self, path: Path, *, budget_bytes: int = _MESSAGE_LIMIT_BYTES
    ) -> tuple[Path, ...]:
        """Write one file, or files `<host>.part<k>.xplane.pb`, each with some lines.

        Each file appears under its name only when it is complete.

        Raises:
            ValueError: A piece of one line exceeds the budget.
            OSError: A file could not be written.
        """
        parts = self._split_parts(budget_bytes)
        stem = path.name.removesuffix(_SUFFIX)
        paths = (
            (path,)
            if len(parts) == 1
            else tuple(
                path.with_name(f"{stem}.part{k}{_SUFFIX}") for k in range(len(parts))
            )
        )
        for target, chunks in zip(paths, parts, strict=True):
            # Write to another name, then rename: a failure leaves no partial file.
            unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
            try:
                with unfinished.open("wb") as file:
                    file.writelines(chunks)
                if unfinished.stat().st_size == 0:
                    raise OSError(f"{target}: nothing was written")
                unfinished.replace(target)
            finally:
                unfinished.unlink(missing_ok=True)
        return paths

    def _split_parts(self, budget: int) -> list[list[bytes]]:
        if self.start_ns is not None:
            if self.stop_ns is None:
                raise ValueError("set stop_ns before writing")
            plane = self.environment()
            plane.set_stat("profile_start_time", Unsigned(self.start_ns))
            plane.set_stat("profile_stop_time", Unsigned(self.stop_ns))
        planes = [plane.encode_plane() for plane in self._planes.values()]
        texts = b"".join(
            sized_field(tag, text.encode())
            for tag, lines in (
                (SpaceTag.ERROR, self._errors),
                (SpaceTag.WARNING, self._warnings),
                (SpaceTag.HOSTNAME, [self.hostname]),
            )
            for text in lines
        )
        # Names repeat in every file, so that each file can be read alone. They precede
        # the lines, so that a truncated file keeps them. The tags and lengths of a
        # plane or a line take at most 20 bytes.
        fixed = len(texts) + sum(len(head) + 20 for head, _ in planes)
        parts: list[list[list[Chunk]]] = [[[] for _ in planes]]
        size = fixed
        for number, (_, pieces) in enumerate(planes):
            for piece in pieces:
                needed = len(piece.head) + len(piece.events) + len(piece.tail) + 20
                if size + needed > budget and size > fixed:
                    parts.append([[] for _ in planes])
                    size = fixed
                if size + needed > budget:
                    raise ValueError(
                        f"{size + needed:,} bytes that cannot be split exceed the "
                        f"budget of {budget:,}"
                    )
                parts[-1][number].append(piece)
                size += needed
        return [
            [
                chunk
                for (head, _), pieces in zip(planes, part, strict=True)
                for chunk in _plane_chunks(head, pieces)
            ]
            + [texts]
            for part in parts
        ]


def _plane_chunks(head: bytes, pieces: Sequence[Chunk]) -> Iterator[bytes]:
    lines: list[list[bytes]] = []
    for _, group in groupby(pieces, key=lambda piece: piece.line):
        parts = list(group)
        body = [parts[0].head, *(piece.events for piece in parts), parts[0].tail]
        length = sum(map(len, body))
        lines.append([encode_varint(PlaneTag.LINE) + encode_varint(length), *body])
    size = len(head) + sum(len(chunk) for line in lines for chunk in line)
    yield encode_varint(SpaceTag.PLANE) + encode_varint(size)
    yield head
    for line in lines:
        yield from line
