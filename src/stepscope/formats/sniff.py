"""Detect the format of a file by its first bytes, and for a few formats by its name.

Formats without a reader have names too, so that the error for such a file can state
what the file is and what to do with it.

Definition: docs/formats/README.md#how-a-format-is-recognised.
"""

from __future__ import annotations

import codecs
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final

from stepscope.errors import BadInput, UnknownFormat
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.rundir import PROFILE_WANTED
from stepscope.trace.schema import read_rows
from stepscope.xspace.reading.input_file import open_input
from stepscope.xspace.wire import MalformedMessage, read_varint

#: Number of (uncompressed) bytes that are examined. In JSON traces, tens of kilobytes
#: about devices may precede the first event.
_HEAD_BYTES: Final = 256 * 1024


#: If the share of replacement characters exceeds this value, the file counts as binary
#: data that a text conversion damaged. A fifth of a profile's bytes are above 0x7F.
_MUCH_REPLACED: Final = 0.02
#: Number of bytes at the start of an unknown file that the error message shows.
_SHOWN_BYTES: Final = 24


class Foreign(Frozen, frozen=True, eq=True):
    """A format without a reader: a description, and what the user can do."""

    what: str
    way_out: str


_KNOWN_FORMATS: Final = (
    "Give *.xplane.pb of TensorFlow or JAX, *.pt.trace.json of PyTorch or *.sqlite of "
    "Nsight Systems, or record one: `stepscope run -- python …`."
)

#: Formats that are recognised but have no reader.
FOREIGN: Final = {
    key: Foreign(what, way_out.format(known=_KNOWN_FORMATS))
    for key, what, way_out in read_rows(
        Path(__file__).with_name("foreign.md").read_text(encoding="utf-8")
    )
}

_RESULT_NAME: Final = Pattern(
    r"\.(overview_page|input_pipeline|kernel_stats|tensorflow_stats|op_stats\w*)"
    r"\.pb\Z|\.memory_profile\.json(\.gz)?\Z|\.hlo_proto\.pb\Z"
)


def detect_format(path: Path) -> str:
    """Return the format of a file: a reader's format, or a key of `FOREIGN`.

    Raises:
        BadInput: The file cannot be opened, or its compression is broken.
        UnknownFormat: The content matches no known format.
    """
    head = read_head(path)
    # Check the file name first: the bytes could look like another format.
    if _RESULT_NAME.search(path.name):
        return "capture_results"
    if path.name.endswith(".riegeli"):
        return "riegeli"
    if not head:
        return "empty"
    found = _format_by_magic(head) or _format_of_message(head) or _format_by_text(head)
    if found is not None:
        return found
    start = head[:_SHOWN_BYTES]
    line = start.splitlines()[0] if start.split() else b""
    described = f"the bytes {start[:12].hex(' ')}"
    if line and line.isascii() and line.decode("ascii").isprintable():
        described = f"the text {line.decode('ascii')!r}"
    raise UnknownFormat.at(
        path, f"no known profile format (it begins with {described})", _KNOWN_FORMATS
    )


def foreign_error(path: Path, format_name: str) -> UnknownFormat:
    """Return the error for a file of a recognised format that has no reader."""
    entry = FOREIGN[format_name]
    return UnknownFormat.at(path, entry.what, entry.way_out)  # type: ignore[return-value]


def read_head(path: Path) -> bytes:
    """Return the first bytes of a file's content, decompressed if the file is gzip."""
    try:
        with open_input(path) as file:
            head = file.read(_HEAD_BYTES)
            if not head.startswith(b"\x1f\x8b"):
                return head
            file.seek(0)
            import gzip  # noqa: PLC0415 - imported only for compressed files

            try:
                with gzip.open(file) as packed:
                    return packed.read(_HEAD_BYTES)
            except (gzip.BadGzipFile, EOFError, zlib.error):
                # If the file is cut or damaged later, its start still shows the format.
                with suppress(zlib.error):
                    return zlib.decompressobj(wbits=31).decompress(head, _HEAD_BYTES)
                return head
    except OSError as error:
        raise BadInput.at(
            path, f"cannot be opened ({error.strerror})", PROFILE_WANTED
        ) from error


#: Keys of a memory snapshot; that of `memory_snapshot()` has only `segment_type`.
_OF_SNAPSHOTS: Final = (b"segments", b"device_traces", b"segment_type")
_MAGIC: Final = (
    (b"NVIDIA Tegra Pro", "nsys_rep"),
    (b"NVR\0", "ncu_rep"),
    (b"version https://git-lfs", "lfs_pointer"),
)


def _format_by_magic(head: bytes) -> str | None:
    if head.startswith(b"SQLite format 3\0"):
        names = (b"StringIds", b"CUPTI_ACTIVITY_KIND_")
        known = any(name in head for name in names)
        return "nsight_systems" if known else "sqlite"
    for magic, format_name in _MAGIC:
        if head.startswith(magic):
            return format_name
    if len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5:
        known = any(name in head for name in _OF_SNAPSHOTS)
        return "memory_snapshot" if known else "pickle"
    if re.match(rb"\s*<(!doctype html|html|head)\b", head[:256], re.IGNORECASE):
        return "html"
    return None


def _format_by_text(head: bytes) -> str | None:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"["):
        return _format_of_json(text)
    # PowerShell writes UTF-16 when it redirects output to a file.
    is_utf16 = head.startswith(b"\xff\xfe")
    table = head.decode("utf-16", "replace").encode() if is_utf16 else head
    if _NSIGHT_COMPUTE.search(table.removeprefix(b"\xef\xbb\xbf")):
        return "nsight_compute_csv"
    if re.search(rb"Time ?\(%\)", head[:4096]) and b"Total Time (ns)" in head[:4096]:
        return "nsys_stats_csv"
    return None


#: Matches the header of an Nsight Compute table, or of `ncu`'s output without a table.
_NSIGHT_COMPUTE: Final = Pattern(
    rb'^(?:"ID"[,;]"Process ID"|ID[,;]Process ID|==(?:PROF|ERROR)==)', re.MULTILINE
)


#: Matches a process name that has the form of a plane name of an XLA profile.
_PROCESS: Final = Pattern(rb'"name"\s*:\s*"/(?:host|device):')


#: Fields that only PyTorch writes, and categories of PyTorch's events. Converters to
#: Chrome's format may copy PyTorch's schema version, but use different categories.
_KINETO: Final = (b'"deviceProperties"', b'"baseTimeNanoseconds"')
_KINETO_CATEGORY: Final = Pattern(
    rb'"cat"\s*:\s*"(?:cpu_op|cpu_instant_event|user_annotation|python_function|Trace'
    rb"|[Oo]perator|[Kk]ernel|Runtime|gpu_\w+|ac2g|fwdbwd"
    rb'|(?:cuda|hip|xpu|mtia|privateuse1)_(?:runtime|driver))"'
)
_CATEGORY: Final = Pattern(rb'"cat"\s*:\s*"')


#: Matches process names of PyTorch's profiler before Kineto.
_AUTOGRAD: Final = Pattern(rb'"pid"\s*:\s*"(?:CPU|CUDA) functions"')


def _format_of_chrome_trace(text: bytes) -> str:
    """Return the format of a Chrome trace, determined by the names of its processes."""
    if _AUTOGRAD.search(text):
        return "autograd_trace"
    of_profile = b'"process_name"' in text and _PROCESS.search(text)
    return "xla_trace" if of_profile else "chrome_trace"


def _format_of_json(text: bytes) -> str | None:
    if b"speedscope" in text[:4096] and b'"$schema"' in text:
        return "speedscope"
    # Long metadata may fill all examined bytes, so that no event is among them.
    has_no_events = b'"schemaVersion"' in text and not _CATEGORY.search(text)
    marked = any(mark in text for mark in _KINETO)
    if marked or has_no_events or _KINETO_CATEGORY.search(text):
        return "kineto"
    if b'"traceEvents"' in text or re.search(rb'"ph"\s*:', text):
        return _format_of_chrome_trace(text)
    if b'"nodes"' in text and b'"schema"' in text:
        return "execution_trace"
    if re.match(rb"\[\s*\[\s*-?\d+\s*,\s*-?\d+\s*,", text):
        return "memory_timeline"
    return "json"


def _format_of_message(head: bytes) -> str | None:
    """Recognise, by the first fields, a format whose files are protobuf messages."""
    if head[0] in _SPACE_TAGS and _is_damaged_text(head):
        return "text_damaged"
    offset = 0
    while offset < len(head) and head[offset] in _SPACE_TAGS:
        try:
            length, begin = read_varint(head, offset + 1)
        except MalformedMessage:
            return None
        if head[offset] == _PLANE:
            return _format_of_first_message(head, begin, length)
        # Errors, warnings and host names may precede the first plane.
        offset = begin + length
    return "xspace" if offset == len(head) else None


#: Tags of XSpace's fields (messages or texts): planes 1, errors 2, warnings 3, hosts 4.
_SPACE_TAGS: Final = frozenset({0x0A, 0x12, 0x1A, 0x22})
_PLANE: Final = 0x0A
#: Tags of XPlane's fields: id 1 (a number), name 2, lines 3, metadata 4 and 5, stats 6.
_PLANE_ID: Final = 0x08
_PLANE_NAME: Final = b"\x12"
_PLANE_TAGS: Final = frozenset({_PLANE_ID, 0x12, 0x1A, 0x22, 0x2A, 0x32})


#: Matches the start of a timeline stored as a protobuf message. It starts with a map
#: entry, whose value starts with the name of a process.
_PROCESS_OF_MESSAGE: Final = Pattern(rb"\x0a[\x01-\x7f](?:/host:|/device:)")


def _format_of_first_message(head: bytes, begin: int, length: int) -> str | None:
    if length == 0 or begin >= len(head):
        return "xspace"
    offset = begin
    try:
        if head[offset] == _PLANE_ID:
            _, offset = read_varint(head, offset + 1)
    except MalformedMessage:
        return "xspace"
    # A pprof file starts with a message of 4 bytes: kind and unit of its values.
    if offset > begin and head[offset : offset + 1] == b"\x10":
        return "device_memory_profile" if length < 16 else "perfetto"
    if offset < min(len(head), begin + length) and head[offset] not in _PLANE_TAGS:
        return None
    is_name = head[offset : offset + 1] == _PLANE_NAME
    return _format_by_plane_name(head, offset + 1) if is_name else "xspace"


def _format_by_plane_name(head: bytes, offset: int) -> str | None:
    try:
        size, offset = read_varint(head, offset)
    except MalformedMessage:
        return None
    name = head[offset : offset + min(size, 64)]
    if _PROCESS_OF_MESSAGE.match(name):
        return "xla_trace"
    return None if any(byte < 0x20 for byte in name) else "xspace"


def _is_damaged_text(head: bytes) -> bool:
    """Return whether binary data was saved as UTF-8 text, which replaces many bytes."""
    try:
        # The decoder is incremental: the examined bytes may end inside a character.
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    # A file that has no control characters is a text with a few damaged letters.
    has_control = any(character in text for character in "\0\x01\x02\x08")
    return has_control and text.count("\ufffd") > len(text) * _MUCH_REPLACED
