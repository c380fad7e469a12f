"""Examples of the pages: each runs and prints what its page says, or is of a file."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(r"^```(python|text)( \S+)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^ *(?:```|~~~) *(?:python|py)\b", re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Kind, file and text of each block of a page."""
    text = page.read_text(encoding="utf-8")
    return [(kind, file.strip(), body) for kind, file, body in _BLOCK.findall(text)]


def examples(page: Path) -> list[tuple[str, list[str] | None]]:
    """Code of each example that is of no file, and the lines shown below it, if any."""
    own = [(kind, body) for kind, file, body in blocks(page) if not file]
    return [
        (code, said.rstrip().splitlines() if following == "text" else None)
        for (kind, code), (following, said) in itertools.pairwise([*own, ("", "")])
        if kind == "python"
    ]


#: Page, as named from the root of the repository → its path; all that have Python.
PAGES = {
    str(path.relative_to(ROOT)): path
    for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    if _PYTHON.search(path.read_text(encoding="utf-8"))
}
#: The page that shows examples without what they print, which differs each time.
SILENT = "README.md"


def test_every_block_of_python_is_an_example() -> None:
    assert {SILENT, "docs/capture.md", "docs/python.md"} <= PAGES.keys()
    for name, path in PAGES.items():
        kinds = [kind for kind, _, _ in blocks(path)]
        written = _PYTHON.findall(path.read_text(encoding="utf-8"))
        assert kinds.count("python") == len(written), name


@pytest.mark.slow
@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("page", [name for name in PAGES if examples(PAGES[name])])
def test_every_example_prints_what_stands_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    """In an empty folder, with the recordings and profile that pages name."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "logdir").symlink_to(ROOT / "tests/data/gpu/torch_healthy")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code, said in examples(PAGES[page]):
        lines = printed(code, names)
        if said is not None or page != SILENT:
            assert lines == (said or []), code


def test_what_is_shown_of_a_file_stands_in_it_and_a_test_runs_it() -> None:
    found = [
        (file, body)
        for path in PAGES.values()
        for _, file, body in blocks(path)
        if file
    ]
    assert len(found) >= 3
    tests = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")
    )
    for file, body in found:
        assert body in (ROOT / file).read_text(encoding="utf-8"), file
        assert f'"{Path(file).name}"' in tests, file


def test_the_readme_records_as_it_says(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (repository / "README.md").read_text(encoding="utf-8")
    section = page.partition("\n## Record\n")[2].partition("\n## ")[0]
    ((_, _, code),) = _BLOCK.findall(section)
    monkeypatch.chdir(tmp_path)
    printed(code, {})
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 1


def printed(code: str, names: dict[str, object]) -> list[str]:
    """The lines that a block prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "page", "exec"), names)  # noqa: S102 - our page
    return output.getvalue().rstrip().splitlines()
