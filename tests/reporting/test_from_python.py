"""`ss.report`, and the exit status of `stepscope report --fail-on`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.conftest import DATA

import stepscope as ss
from stepscope.cli.main import main
from stepscope.errors import BadInput
from stepscope.reporting.to_json import render_document

if TYPE_CHECKING:
    from pathlib import Path

HEALTHY, LATE_BATCHES = "tf_custom_loop", "experiments/tf_no_prefetch"


def exit_status(*arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(["report", *arguments])
    return ended.value.code or 0


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert exit_status(*arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("full", [False, True])
def test_a_report_is_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], *, full: bool
) -> None:
    path, options = str(DATA / LATE_BATCHES), ["--full"] if full else []
    report = ss.report(path)
    assert report.headline in " ".join(report.to_text(full=full).split())
    # A pipe has 100 columns.
    assert (
        report.to_text(full=full).rstrip() == printed(capsys, path, *options).rstrip()
    )
    markdown = printed(capsys, path, "--format", "markdown", *options)
    assert report.to_markdown(full=full) == markdown


def test_a_report_shows_itself_in_a_notebook() -> None:
    report = ss.report(DATA / LATE_BATCHES)
    assert report._repr_markdown_() == report.to_markdown()
    assert repr(report) == report.to_text()


def test_the_first_advice_is_the_first_that_the_report_prints() -> None:
    report = ss.report(DATA / LATE_BATCHES)
    assert report.first_advice is not None
    advice, code = report.first_advice.splitlines()
    assert advice.startswith("Do first (input.bound): ")
    text = " ".join(report.to_text().split())
    assert f"{advice} {code}" in text


def test_its_json_has_all_findings_and_tools() -> None:
    report = ss.report(DATA / HEALTHY)
    assert report.to_json().encode() == render_document(report.document)
    written = json.loads(report.to_json())
    assert [it["id"] for it in written["findings"]] == [it.id for it in report.findings]


def test_failing_findings_are_those_of_a_severity_or_a_higher_one() -> None:
    report = ss.report(DATA / LATE_BATCHES)
    severities = {it.id: it.severity for it in report.findings if it.status == "fail"}
    for severity, wanted in {
        "critical": {"critical"},
        "warn": {"critical", "warn"},
        "info": {"critical", "warn", "info"},
    }.items():
        found = {it.id for it in report.failed_findings(severity)}  # type: ignore[arg-type] - keys of the table
        assert found == {it for it in severities if severities[it] in wanted}
    assert "input.bound" in {it.id for it in report.failed_findings("critical")}


def test_it_says_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        ss.report(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("run", "severity", "status"),
    [
        (HEALTHY, "warning", 0),
        (HEALTHY, "critical", 0),
        (LATE_BATCHES, "warning", 1),
        (LATE_BATCHES, "critical", 1),
    ],
)
def test_the_exit_status_tells_whether_a_finding_fails(
    run: str, severity: str, status: int
) -> None:
    assert exit_status(str(DATA / run), "--fail-on", severity) == status


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--fail-on", "info"],
            "there is no severity 'info'; known: critical, warning",
        ),
        (["--fail-on", "warning", "--explain", "input.bound"], "leave out --explain"),
    ],
)
def test_a_wrong_question_is_told(
    capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert exit_status(str(DATA / HEALTHY), *options) == 2
    assert said in capsys.readouterr().err
