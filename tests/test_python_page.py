"""The page about Python: its examples run, and print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_example_prints_what_stands_below_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (repository / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = _BLOCK.findall(page)
    assert len(blocks) >= 2
    assert [kind for kind, _ in blocks] == ["python", "text"] * (len(blocks) // 2)
    monkeypatch.chdir(repository)
    names: dict[str, object] = {}
    for (_, code), (_, said) in zip(blocks[::2], blocks[1::2], strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/python.md", "exec"), names)  # noqa: S102 - our page
        assert written(printed.getvalue()) == written(said), code


def written(text: str) -> list[str]:
    """The lines without blank ones at the end."""
    return text.rstrip().splitlines()
