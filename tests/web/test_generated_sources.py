"""What Python's declarations generate for the page is up to date."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


def web_sources(repository: Path) -> ModuleType:
    path = repository / "build_tools" / "web_sources.py"
    spec = importlib.util.spec_from_file_location("web_sources", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_types_definitions_and_colours_are_current(repository: Path) -> None:
    written = web_sources(repository).sources()
    names = {path.name for path in written}
    assert names == {
        "tokens.css",
        "categories.ts",
        "types.ts",
        "definitions.json",
        "tools.ts",
        "words.ts",
    }
    stale = [
        path.name
        for path, text in written.items()
        if path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run python build_tools/web_sources.py"
