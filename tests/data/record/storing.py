"""Turns what a framework's profiler wrote into a small recording that is kept.

The profile's bytes stay as the framework wrote them, but for the machine's name (in an
XSpace `hostnames`, field 4), which becomes `localhost`; then the file is gzipped.
"""

import gzip
import json
import shutil
from pathlib import Path

HOST = "localhost"
HOSTNAMES_FIELD = 4
LENGTH_DELIMITED = 2


def store(logdir: Path, target: Path) -> Path:
    """Put the only profile under `logdir` into the log directory `target`."""
    (source,) = logdir.rglob("*.xplane.pb")
    shutil.rmtree(target / "plugins", ignore_errors=True)
    run = target / "plugins" / "profile" / source.parent.name
    run.mkdir(parents=True)
    stored = run / f"{HOST}.xplane.pb.gz"
    content = with_neutral_host(source.read_bytes())
    stored.write_bytes(gzip.compress(content, 9, mtime=0))
    return stored


def store_json(folder: Path, target: Path) -> Path:
    """Put the only trace in JSON under `folder` into the log directory `target`.

    Its bytes stay as they are, but for the machine's name and the path where it was
    first written.
    """
    (source,) = folder.rglob("*.trace.json")
    content = source.read_bytes()
    host = json.loads(content)["host_name"]
    private = {
        str(source): source.name,
        f'"host_name": "{host}"': f'"host_name": "{HOST}"',
    }
    for text, neutral in private.items():
        if text.encode() not in content:
            raise ValueError(f"the trace does not hold {text}")
        content = content.replace(text.encode(), neutral.encode())
    target.mkdir(parents=True, exist_ok=True)
    for older in target.glob("*.trace.json.gz"):
        older.unlink()
    stored = target / f"{source.name}.gz"
    stored.write_bytes(gzip.compress(content, 9, mtime=0))
    return stored


def write_truth(target: Path, truth: dict[str, object]) -> None:
    """Keep what the script measured or knew apart from the profile."""
    target.mkdir(parents=True, exist_ok=True)
    (target / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


def with_neutral_host(xspace: bytes) -> bytes:
    """The same message with every entry of `hostnames` replaced."""
    name = HOST.encode()
    neutral = bytes([HOSTNAMES_FIELD << 3 | LENGTH_DELIMITED, len(name)]) + name
    kept = []
    position = 0
    while position < len(xspace):
        start = position
        tag, position = read_varint(xspace, position)
        if tag & 7 != LENGTH_DELIMITED:
            raise ValueError(f"XSpace holds only messages and texts, not tag {tag}")
        length, position = read_varint(xspace, position)
        position += length
        is_host = tag >> 3 == HOSTNAMES_FIELD
        kept.append(neutral if is_host else xspace[start:position])
    return b"".join(kept)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
