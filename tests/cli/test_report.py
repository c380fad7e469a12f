"""`report` on profiles that ship with the repository."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stepscope.advice.registry import RULES
from stepscope.cli.main import main

pytestmark = pytest.mark.usefixtures("opened_once")


def report(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", *arguments])


@pytest.fixture(scope="module")
def recorded(repository: Path) -> str:
    return str(repository / "tests" / "data" / "tf_custom_loop")


def test_the_page_leads_with_the_verdict_and_names_every_section(recorded: str) -> None:
    result = report(recorded, "--full")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    headings = [one for one in lines if one and not one.startswith(" ")]
    assert headings[0].startswith("stepscope · ")
    assert headings.index("Where the step time went") < headings.index("Steps")
    assert headings.index("Steps") < headings.index("Findings")
    assert headings[-1] == "What could not be seen"
    # What stands between the head and the first section is the verdict.
    assert lines[3].endswith((".", "%", ",")) or "%" in lines[3]
    assert "\x1b" not in result.stdout
    code_free = [one for one in lines if not one.startswith(" " * 6)]
    assert max(len(one) for one in code_free) <= 100


def test_the_bars_of_the_page_are_the_shares_of_the_json(recorded: str) -> None:
    page = report(recorded).stdout
    overview = json.loads(report(recorded, "--format", "json").stdout)["tools"][
        "overview_page"
    ]["data"]
    for category, share in overview["breakdown_percent"].items():
        if share and share >= 0.1:
            assert f"{share:.1f} %" in page, category


def test_categories_nobody_looked_at_are_named_and_never_shown_as_zero(
    recorded: str,
) -> None:
    page = report(recorded, "--full").stdout
    assert "Not recorded: all device work (launches, copies, compute). " in page
    overview = json.loads(report(recorded, "--format", "json").stdout)["tools"][
        "overview_page"
    ]["data"]
    assert "device_compute_32" not in overview["breakdown_ms"]


def test_the_json_holds_all_tools_and_findings(recorded: str) -> None:
    written = json.loads(report(recorded, "--format", "json").stdout)
    assert list(written) == [
        "schema",
        "headline",
        "profile",
        "quality",
        "tools",
        "findings",
        "checklist",
        "hardware",
    ]
    assert list(written["tools"]) == [
        "overview_page",
        "input_pipeline_analyzer",
        "framework_op_stats",
        "kernel_stats",
        "memory_profile",
        "tf_data_bottleneck_analysis",
        "inference_profile",
    ]
    found = {one["id"]: one["stage"] for one in written["findings"]}
    assert found.keys() == {rule.item.id for rule in RULES}
    assert list(found.values()) == sorted(found.values())
    assert written["tools"]["kernel_stats"]["unavailable"]["code"] == "NO_DEVICE_PLANE"


def test_many_hosts_get_a_line_each(recorded: str, tmp_path: Path) -> None:
    (source,) = Path(recorded).rglob("*.xplane.pb.gz")
    for host in ("alpha", "beta"):
        shutil.copy(source, tmp_path / f"{host}.xplane.pb.gz")
    hosts = (str(tmp_path / f"{host}.xplane.pb.gz") for host in ("alpha", "beta"))
    page = report(*hosts, "--full")
    assert page.exit_code == 0, page.stderr
    lines = page.stdout.splitlines()
    at = lines.index("Hosts")
    assert [one.split()[0] for one in lines[at + 2 : at + 4]] == ["alpha", "beta"]


@pytest.mark.profiles
def test_a_run_without_steps_says_so_and_how_to_mark_them(
    shared_profile: Any,
) -> None:
    path = shared_profile("gpu_jax_amd/jax08_gemm")
    page = report(str(path), "--full").stdout
    assert "No steps were found: shares are of the whole recording" in page
    assert "StepTraceAnnotation" in page
    assert re.search(r"\d [mµn]?s a step", page) is None


def test_the_report_goes_into_a_file_without_colours(
    recorded: str, tmp_path: Path
) -> None:
    file = tmp_path / "report.txt"
    assert report(recorded, "-o", str(file)).exit_code == 0
    assert file.read_text(encoding="utf-8") == report(recorded).stdout
    assert report(recorded, "-o", str(file)).exit_code == 2
