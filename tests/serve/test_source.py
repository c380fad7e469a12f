"""The text of the program: only from directories that were named, only Python files."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from tests.support.sites.serve import OLD, Site, put, running
from tests.support.traces import blueprint

from stepscope.cli.main import main
from stepscope.serve.runs.program_files import ProgramFiles
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = "def step():\n    return 'größer'\n"
OUTSIDE = "OUTSIDE = 'this lies outside'\n"
#: Where the program was recorded, on another machine.
HOME = "/home/someone/project"
PACKAGE = "/usr/lib/python3.11/site-packages/pack/core.py"


def profile_naming(*files: str) -> bytes:
    """A profile with a function in each of these files."""
    space = XSpaceBuilder("vm", start_ns=None)
    line = space.plane("/host:CPU").line(1, name="main")
    for number, file in enumerate(files):
        name = f"{file}(3): step"
        line.event(name, offset_ps=number * 10_000_000, dur_ps=5_000_000)
    return space.to_bytes()


@contextmanager
def site_of(
    folder: Path, *files: str, source: tuple[str, ...] | None
) -> Iterator[Site]:
    put(folder / "logs", "r1", "vm", profile_naming(*files))
    program = None if source is None else ProgramFiles(source)
    with running(folder / "logs", program=program) as site:
        yield site
        assert site.lives


def asked(site: Site, file: str) -> Any:
    answer = site.get(f"data/source?file={quote(file, safe='')}")
    assert answer.status == 200, answer.body
    return answer.json


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A program on this machine, with something beside it."""
    folder = tmp_path / "mine"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "train.py").write_text(TEXT, "utf-8")
    os.utime(folder / "src" / "train.py", (OLD - 100, OLD - 100))
    (tmp_path / "secret.py").write_text(OUTSIDE)
    return folder


def test_a_file_of_another_machine_is_found_by_the_end_of_its_path(
    tmp_path: Path, project: Path
) -> None:
    name = f"{HOME}/src/train.py"
    with site_of(tmp_path, name, source=(str(project),)) as site:
        found = asked(site, name)
        assert found["text"] == TEXT
        assert found["path"] == "mine/src/train.py"
        assert found["changed"] is False
        assert found["reason"] is None
        os.utime(project / "src" / "train.py", (OLD + 100, OLD + 100))
        assert asked(site, name)["changed"] is True


def test_without_a_directory_no_text_is_shown(tmp_path: Path, project: Path) -> None:
    name = str(project / "src" / "train.py")
    with site_of(tmp_path, name, source=None) as site:
        found = asked(site, name)
        assert found["text"] is None
        assert "stepscope serve LOGDIR --source DIR" in found["reason"]


def test_the_longest_end_decides_and_a_tie_shows_nothing(
    tmp_path: Path, project: Path
) -> None:
    (project / "old").mkdir()
    (project / "old" / "train.py").write_text("old = 1\n")
    longer = f"{HOME}/src/train.py"
    with site_of(tmp_path, longer, "train.py", source=(str(project),)) as site:
        assert asked(site, longer)["text"] == TEXT
        found = asked(site, "train.py")
        assert found["text"] is None
        assert "2 files match" in found["reason"]
        assert "mine/old/train.py" in found["reason"]
    # One file by two ways is one.
    twice = (str(project / "src"), str(project / "src" / ".." / "src"))
    assert ProgramFiles(twice).find_text("train.py", recorded_unix_s=OLD).text == TEXT


@pytest.mark.parametrize(
    "name",
    [PACKAGE, "pack/core.py", "/usr/lib/python3.11/core.py"],
)
def test_a_package_s_file_is_not_taken_for_one_of_the_program(
    project: Path, name: str
) -> None:
    (project / "core.py").write_text("own = 1\n")
    files = ProgramFiles([str(project)])
    assert files.find_text(name, recorded_unix_s=OLD).text is None
    for own in (f"{HOME}/core.py", "../core.py", "core.py"):
        assert files.find_text(own, recorded_unix_s=OLD).text == "own = 1\n"


def test_a_package_s_file_is_found_from_the_package_on(project: Path) -> None:
    (project / "pack").mkdir()
    (project / "pack" / "core.py").write_text("packed = 1\n")
    files = ProgramFiles([str(project)])
    for name in (PACKAGE, "pack/core.py", r"C:\Python\site-packages\pack\core.py"):
        assert files.find_text(name, recorded_unix_s=OLD).text == "packed = 1\n"


@pytest.mark.parametrize(
    "name",
    [
        "../secret.py",
        "src/../../secret.py",
        "{outside}",
        "{outside}\0.py",
        "..%2fsecret.py",
        "..\\secret.py",
        "/etc/passwd",
        "/proc/self/environ",
        "/dev/zero",
        "linked.py",
        "linked_folder/secret.py",
        "device.py",
        "pipe.py",
        "folder.py",
        "huge.py",
        "latin.py",
        "notes.txt",
        ".hidden/key.py",
        "",
        ".py",
        "\ud800.py",
    ],
)
def test_a_hostile_profile_reaches_no_other_file(
    tmp_path: Path, project: Path, name: str
) -> None:
    outside = tmp_path / "secret.py"
    (project / "linked.py").symlink_to(outside)
    (project / "linked_folder").symlink_to(tmp_path)
    (project / "device.py").symlink_to("/dev/zero")
    os.mkfifo(project / "pipe.py")
    (project / "folder.py").mkdir()
    (project / "huge.py").write_bytes(b"#" * (2 * 2**20 + 1))
    (project / "latin.py").write_bytes("größer = 1".encode("latin-1"))
    (project / "notes.txt").write_text(OUTSIDE)
    (project / ".hidden").mkdir()
    (project / ".hidden" / "key.py").write_text(OUTSIDE)
    found = ProgramFiles([str(project)]).find_text(
        name.replace("{outside}", str(outside)), recorded_unix_s=OLD
    )
    assert found.text is None
    assert found.reason


def test_a_directory_whose_name_is_no_text_is_shown_by_its_bytes(
    tmp_path: Path, project: Path
) -> None:
    odd = project / os.fsdecode(b"odd\xff")
    odd.mkdir()
    (odd / "core.py").write_text("own = 1\n")
    with site_of(tmp_path, "core.py", source=(str(project),)) as site:
        assert asked(site, "core.py")["path"] == "mine/odd\\udcff/core.py"


def test_a_link_within_the_directories_is_shown(project: Path) -> None:
    (project / "same.py").symlink_to(project / "src" / "train.py")
    files = ProgramFiles([str(project)])
    assert files.find_text("same.py", recorded_unix_s=OLD).text == TEXT


def test_a_link_that_is_made_after_the_list_is_not_followed(
    tmp_path: Path, project: Path
) -> None:
    files = ProgramFiles([str(project)])
    path = project / "src" / "train.py"
    assert files.find_text("train.py", recorded_unix_s=OLD).text == TEXT
    path.unlink()
    path.symlink_to(tmp_path / "secret.py")
    assert files.find_text("train.py", recorded_unix_s=OLD).text is None
    path.unlink()
    (project / "src").rmdir()
    (tmp_path / "train.py").write_text(OUTSIDE)
    (project / "src").symlink_to(tmp_path)
    assert files.find_text("train.py", recorded_unix_s=OLD).text is None


@pytest.mark.parametrize(
    "file",
    [
        "{project}/src/train.py",
        "../mine/src/train.py",
        "%2e%2e%2fmine%2fsrc%2ftrain.py",
        "other.py",
        "%00",
        "",
    ],
)
def test_only_files_that_the_profile_names_are_given(
    tmp_path: Path, project: Path, file: str
) -> None:
    with site_of(tmp_path, "train.py", source=(str(project),)) as site:
        path = file.replace("{project}", str(project))
        answer = site.get(f"data/source?file={path}")
        assert (answer.status, answer.error) == (404, "unknown_file")
        assert b"step" not in answer.body


def test_it_is_read_by_our_own_page_alone(tmp_path: Path, project: Path) -> None:
    with site_of(tmp_path, "train.py", source=(str(project),)) as site:
        address = "data/source?file=train.py"
        for origin in ("cross-site", "same-site"):
            assert site.get(address, Sec_Fetch_Site=origin).error == "refused"
        assert site.get(address, Host="evil.example").error == "refused"
        assert site.ask("POST", address).status == 405
        assert site.get(f"{address}&more=1").error == "bad_parameter"
        answer = site.get(address, Sec_Fetch_Site="same-origin")
        assert answer.json["text"] == TEXT
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_what_is_no_directory_is_refused_at_the_start(tmp_path: Path) -> None:
    put(tmp_path / "logs", "r1", "vm", bytes(blueprint.a1().data))
    arguments = ["serve", str(tmp_path / "logs"), "--source", str(tmp_path / "none")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "--source" in result.output
    assert "is not a directory" in result.output
