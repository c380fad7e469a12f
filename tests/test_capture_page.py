"""The pages about recording: their examples run, and print what the pages say."""

from __future__ import annotations

import contextlib
import io
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK = re.compile(r"^```(python|text)( \S+)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Kind, file and text of each block of a page."""
    text = page.read_text(encoding="utf-8")
    return [(kind, file.strip(), body) for kind, file, body in _BLOCK.findall(text)]


@pytest.mark.slow
@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("page", ["capture.md", "flight-recorder.md", "remote.md"])
def test_every_example_prints_what_stands_below_it(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    found = blocks(repository / "docs" / page)
    own = [(kind, body) for kind, file, body in found if not file]
    assert len(own) >= 2
    assert [kind for kind, _ in own] == ["python", "text"] * (len(own) // 2)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for (_, code), (_, said) in zip(own[::2], own[1::2], strict=True):
        assert printed(code, names) == said.rstrip().splitlines(), code


def test_what_is_shown_of_an_example_stands_in_it(repository: Path) -> None:
    """The examples themselves are run by tests of their own."""
    found = [
        (file, body)
        for page in ("capture.md", "tracking.md")
        for _, file, body in blocks(repository / "docs" / page)
        if file
    ]
    assert found
    for file, body in found:
        assert body in (repository / file).read_text(encoding="utf-8"), file


def test_the_readme_records_as_it_says(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (repository / "README.md").read_text(encoding="utf-8")
    section = page.partition("\n## Record\n")[2].partition("\n## ")[0]
    ((_, _, code),) = _BLOCK.findall(section)
    monkeypatch.chdir(tmp_path)
    printed(code, {})
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 1


@pytest.mark.slow(seconds=0.5)
def test_the_readme_watches_a_program_as_it_says(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (repository / "README.md").read_text(encoding="utf-8")
    section = page.partition("\n## Watch a running program\n")[2]
    (_, _, code), *_ = _BLOCK.findall(section)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (said,) = printed(code, {})
    assert re.fullmatch(r"\S+:\d+ 127\.0\.0\.1:\d+", said)


def printed(code: str, names: dict[str, object]) -> list[str]:
    """The lines that a block prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "page", "exec"), names)  # noqa: S102 - our page
    return output.getvalue().rstrip().splitlines()
