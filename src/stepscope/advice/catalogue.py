"""The declared texts of rules: titles, sentences, reasons, notes and actions.

A file of `texts/` has the texts of one rule, or texts that several rules share. This
module reads only the compiled texts; a checkout compiles them again if a file is newer.
"""

from __future__ import annotations

import contextlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from stepscope.advice.item import Item, Texts

_FOLDER: Final = Path(__file__).parent
_SOURCES: Final = _FOLDER / "texts"
_COMPILED: Final = _FOLDER / "compiled_texts.json"
#: Actions that both rules and tools show.
_INPUT_ACTIONS: Final = _FOLDER.parent / "derive" / "verdicts" / "input_actions.json"


class _Catalogue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All declared texts.

    Attributes:
        owners: Meaning of each cause of time (owner), by category and cause.
        rules: Texts of each rule by the rule's id.
        shared: Texts that several rules use, by file.
    """

    owners: dict[str, dict[str, str]]
    rules: dict[str, Item]
    shared: dict[str, Texts]


@lru_cache(maxsize=1)
def catalogue() -> _Catalogue:
    """Return all declared texts."""
    return msgspec.json.decode(_compiled(), type=_Catalogue)


def rule_item(rule: str) -> Item:
    """Return the declared item of a rule."""
    return catalogue().rules[rule]


def shared_texts(file: str) -> Texts:
    """Return the texts of a file that several rules use."""
    return catalogue().shared[file]


def _compiled() -> bytes:
    """Return the compiled texts; an installed package has only these."""
    if not _SOURCES.is_dir():
        return _COMPILED.read_bytes()
    with os.scandir(_SOURCES) as entries:
        changed = [entry.stat().st_mtime_ns for entry in entries]
    changed += [path.stat().st_mtime_ns for path in (_SOURCES, _INPUT_ACTIONS)]
    if _COMPILED.exists() and _COMPILED.stat().st_mtime_ns > max(changed):
        return _COMPILED.read_bytes()
    from stepscope.advice.texts_compiler import (  # noqa: PLC0415 - in a checkout alone
        compile_texts,
    )

    compiled = compile_texts(_SOURCES)
    # Several processes may write at once, and the folder may be read-only.
    with contextlib.suppress(OSError):
        written = _COMPILED.with_suffix(f".{os.getpid()}")
        written.write_bytes(compiled)
        written.replace(_COMPILED)
    return compiled


#: Meaning of each cause of time (owner), by category and cause.
OWNERS_OF: Final = catalogue().owners
#: Meaning of each cause of time, by owner.
OWNER_TEXTS: Final = {
    owner: words for owners in OWNERS_OF.values() for owner, words in owners.items()
}
