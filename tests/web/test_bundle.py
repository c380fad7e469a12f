"""The built page: its size, its files, and that it needs nobody else."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

import pytest

STATIC = Path(__file__).resolve().parents[2] / "src/stepscope/serve/static"
MOST = 320_000
MOST_GZIPPED = 110_000
#: Of the script that answers the page in a saved file.
MOST_OF_SAVED = 14_000
#: Names of namespaces, which are compared and never fetched, and a library's home.
NAMESPACES = re.compile(r"https?://(www\.w3\.org|preactjs\.com)/[\w/#.-]*")


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    if not (STATIC / "index.html").is_file():
        why = "the page is not built (make web)"
        if os.environ.get("STEPSCOPE_BROWSER") == "required":
            pytest.fail(why)
        pytest.skip(why)
    return {
        path.relative_to(STATIC).as_posix(): path.read_bytes()
        for path in STATIC.rglob("*")
        if path.is_file()
    }


def sent(files: dict[str, bytes]) -> dict[str, bytes]:
    """What a browser loads before it shows anything."""
    beside = {"build.json", "THIRD_PARTY.txt", "definitions.json", "saved.js"}
    return {name: one for name, one in files.items() if name not in beside}


def test_the_bundle_keeps_its_budget(files: dict[str, bytes]) -> None:
    assert sum(len(one) for one in sent(files).values()) <= MOST
    packed = sum(len(gzip.compress(one, 9)) for one in sent(files).values())
    assert packed <= MOST_GZIPPED


def test_the_script_of_saved_files_is_small(files: dict[str, bytes]) -> None:
    assert len(files["saved.js"]) <= MOST_OF_SAVED
    assert b"import" not in files["saved.js"]


def test_one_script_and_one_style_sheet(files: dict[str, bytes]) -> None:
    endings = sorted(Path(name).suffix for name in sent(files))
    assert endings == [".css", ".html", ".js"]


def test_definitions_are_a_file_of_their_own(files: dict[str, bytes]) -> None:
    told = json.loads(files["definitions.json"])
    some = told["tools"]["kernel_stats"]["kernel_count"]
    text = told["shared"][some] if isinstance(some, int) else some
    assert len(text) > 10
    script = next(one for name, one in files.items() if name.endswith(".js"))
    assert text.encode() not in script


def test_the_bundle_names_no_host(files: dict[str, bytes]) -> None:
    for name, content in sent(files).items():
        text = NAMESPACES.sub("", content.decode())
        assert re.findall(r"https?://[^\s\"'`]+", text) == [], name


def test_a_script_can_be_inlined(files: dict[str, bytes]) -> None:
    for name, content in files.items():
        if name.endswith(".js"):
            assert b"</script" not in content.lower()
            assert b"import(" not in content


def test_addresses_are_relative(files: dict[str, bytes]) -> None:
    links = re.findall(r'(?:src|href)="([^"]*)"', files["index.html"].decode())
    assert links
    assert all(link.startswith(("./", "data:")) for link in links)
    # The style sheet may name parts of the page (#…), and no file.
    for name, content in files.items():
        if name.endswith(".css"):
            assert re.findall(rb"url\((?!#|[\"']?data:)", content) == []


def test_the_page_needs_no_inline_style_or_script(files: dict[str, bytes]) -> None:
    page = files["index.html"].decode()
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == [""]


def test_licences_of_all_that_is_bundled_stand_beside_it(
    files: dict[str, bytes],
) -> None:
    package = json.loads((STATIC.parents[3] / "web/package.json").read_text("utf-8"))
    text = files["THIRD_PARTY.txt"].decode()
    # Wheels carry the one that is committed.
    assert (STATIC.parents[3] / "THIRD_PARTY.txt").read_text("utf-8") == text
    for name, version in package["dependencies"].items():
        heading = re.search(
            rf"^{re.escape(name)} {version} \((.+)\)\n=+\n\n(.+)", text, re.MULTILINE
        )
        assert heading, name
    assert text.lower().count("permission is hereby granted") >= len(
        package["dependencies"]
    )
    assert "axe-core" not in text


def test_the_record_says_what_was_built(files: dict[str, bytes]) -> None:
    told = json.loads(files["build.json"])
    assert told["built"] is True
    assert re.fullmatch(r"[0-9a-f]{64}", told["hash"])
    assert {"node", "vite", "preact"} <= told["versions"].keys()
