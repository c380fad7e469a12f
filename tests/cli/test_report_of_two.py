"""`report` of two runs, with promises, with an explanation, and as Markdown."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

from stepscope.advice.engine import evaluate, signals_of
from stepscope.advice.explanation import explanation
from stepscope.advice.registry import RULES
from stepscope.analysis.results.fitting_remedies import with_fitting_remedies
from stepscope.cli.main import main
from stepscope.reporting import to_json
from stepscope.reporting.outline import as_markdown, as_text
from stepscope.reporting.outline.explanation import explanation_outline
from stepscope.reporting.outline.report import SECTIONS
from stepscope.reporting.page import plain_text
from stepscope.session import open_profile

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.profile_data import ProfileData

pytestmark = pytest.mark.usefixtures("opened_once")

GRAPH, HEALTHY = "gpu/torch_graph", "gpu/torch_healthy"
LAUNCH_BOUND = "gpu/torch_launch_bound"


@pytest.fixture(scope="module")
def data(repository: Path) -> Path:
    return repository / "tests" / "data"


def report(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, arguments)])


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.slow(seconds=0.3)
def test_two_runs_begin_with_what_became_of_the_step(data: Path) -> None:
    result = report(data / GRAPH, "--against", data / HEALTHY)
    assert result.exit_code == 0, result.stderr
    text = result.stdout
    assert plain(text.split("\n  run")[0]).endswith(
        "A step takes 1.73 ms, 38.9 % less than the 2.83 ms before: a change of "
        "−1.10 ms (95 % interval: −1.73 ms to −621 µs)."
    )
    order = [
        text.index(heading)
        for heading in (
            "Do both runs do the same work?",
            "Change by cause",
            "Which ops changed",
            "Which kernels changed",
            "Findings",
            "Were the predicted gains reached?",
        )
    ]
    assert order == sorted(order)
    assert "1.10 ms measured (95 % interval 621 µs to 1.73 ms): as predicted." in plain(
        text
    )
    assert max(map(len, text.splitlines())) <= 100


def test_json_and_markdown_say_what_the_text_says(data: Path) -> None:
    asked = (data / GRAPH, "--against", data / HEALTHY, "--format")
    found: Any = json.loads(report(*asked, "json").stdout)
    assert found["schema"] == 1
    assert found["step_time"]["verdict"] == "faster"
    assert found["step_time"]["change_ms"] == pytest.approx(
        found["new"]["mean_ms"] - found["base"]["mean_ms"]
    )
    marked = report(*asked, "markdown").stdout
    assert marked.startswith("# ")
    assert "**A step takes 1.73 ms, 38.9 % less than the 2.83 ms before" in marked
    for kernel in found["kernels"][:3]:
        assert kernel["name"][:20].replace("_", "\\_") in marked
    # Each row of a table has as many cells as its header.
    for table in re.findall(r"(?:^\|.*\|\n)+", marked, re.MULTILINE):
        bars = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(bars) == 1


def test_other_work_shows_both_runs_and_no_change(data: Path) -> None:
    text = report(data / "tf_cpu/xla", "--against", data / "tf_cpu/healthy").stdout
    assert text.splitlines()[1].startswith("Not comparable. Only 16 % of the ops")
    assert "less than the" not in text
    assert "more than the" not in text
    assert "−" not in text
    assert "--same-work" in text


def logs_of(folder: Path, data: Path, *names: str) -> list[Path]:
    """A log directory with these runs; the directories of the runs in their order."""
    runs = []
    for name in names:
        (run,) = (data / name / "plugins" / "profile").iterdir()
        target = folder / "logs" / "plugins" / "profile" / run.name
        shutil.copytree(run, target)
        runs.append(target)
    return runs


@pytest.mark.slow(seconds=0.6)
def test_a_stored_promise_is_answered_by_the_next_run(
    tmp_path: Path, data: Path
) -> None:
    before, after = logs_of(tmp_path, data, HEALTHY, GRAPH)
    first = report(before, "--store")
    assert first.exit_code == 0, first.stderr
    assert "No earlier run has predictions." in first.stdout
    file = tmp_path / "logs.promises.json"
    assert plain(str(file)) in plain(first.stdout)
    second = plain(report(after, "--store").stdout)
    assert f"Predictions of run {before.name}:" in second
    # By the programs' own clocks, 8 steps take 29.62 ms, then 17.36 ms; the profiler
    # takes 6.83 ms and 3.37 ms of it.
    promised = re.search(
        r"launch\.delay: (\d+) µs to ([\d.]+) ms a step predicted; 1\.10 ms", second
    )
    assert promised is not None
    assert float(promised[1]) / 1000 <= 1.10 <= float(promised[2])
    assert "as predicted." in second
    kept: Any = json.loads(file.read_text("utf-8"))
    assert list(kept["runs"]) == [before.name, after.name]
    answer, *_ = kept["runs"][before.name]["answers"][after.name]
    assert answer["verdict"] == "inside"
    told: Any = json.loads(report(after, "--store", "--format", "json").stdout)
    assert told["promises_kept"]["answers"][0]["run"] == before.name


def test_a_damaged_file_of_promises_is_one_line_and_stays(
    tmp_path: Path, data: Path
) -> None:
    (run,) = logs_of(tmp_path, data, HEALTHY)
    file = tmp_path / "logs.promises.json"
    file.write_text("{")
    result = report(run, "--store")
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"stepscope: {file}: ")
    assert file.read_text() == "{"


def test_without_store_nothing_is_written(tmp_path: Path, data: Path) -> None:
    (run,) = logs_of(tmp_path, data, HEALTHY)
    report(run)
    assert [one.name for one in tmp_path.iterdir()] == ["logs"]


def test_a_run_on_synthetic_data_says_whether_the_other_waits(data: Path) -> None:
    result = report(data / GRAPH, "--against", data / HEALTHY, "--synthetic")
    assert result.exit_code == 0, result.stderr
    assert "The base run waits for its input: its steps take 38.9 % less" in plain(
        result.stdout
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--explain", "no.such"),
            "there is no rule 'no.such'; known: capture.quality",
        ),
        (("--explain", "input.bound", "--store"), "--explain is about one run"),
        (("--same-work",), "--same-work is about two runs"),
        (("--synthetic",), "--synthetic is about two runs"),
        (("--format", "pdf"), "there is no format 'pdf'; known: text, json, markdown"),
        (("--against", "no_such_folder"), "no_such_folder"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    data: Path, options: tuple[str, ...], said: str
) -> None:
    result = report(data / GRAPH, *options)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert said in line


def test_an_explanation_holds_the_numbers_of_the_finding(data: Path) -> None:
    name = data / "gpu/torch_launch_bound"
    found: Any = json.loads(
        report(name, "--explain", "launch.delay", "--format", "json").stdout
    )
    finding = found["finding"]
    assert finding["id"] == "launch.delay"
    (account,) = (one for one in found["signals"] if one["name"] == "account_signals")
    numbers = account["numbers"]
    # What the documentation worked out of this file by hand, in ps.
    launch = sum(n for name, n in numbers.items() if "_ps.launch (sum" in name)
    host = sum(n for name, n in numbers.items() if "_ps.host_compute (sum" in name)
    (whole,) = (n for name, n in numbers.items() if "window_ps (sum" in name)
    assert launch == pytest.approx(18_092.0e6, rel=1e-4)
    assert 100 * (launch + host) / whole == pytest.approx(finding["share_percent"])
    assert found["left_out"] == {
        "windows": 8,
        "judged": 8,
        "open_end": 0,
        "flags": {},
        "devices": [],
    }
    text = plain(report(name, "--explain", "launch.delay").stdout)
    assert "Threshold: 3 % (source: xprof)" in text
    assert "8 of 8 windows were judged." in text
    # The page of the rule, as far as it is documented.
    assert "Why launches are late" in text
    assert "](" not in text


class Judged(NamedTuple):
    """What every rule says of a profile, and what they read."""

    profile: ProfileData
    signals: Signals
    findings: tuple[Finding, ...]

    def explained(self, rule: str) -> dict[str, str]:
        """Form → the explanation of a rule."""
        found = explanation(self.profile, rule, self.findings, self.signals)
        outline = explanation_outline(found)
        return {
            "text": plain_text(as_text.render(outline, width=100)),
            "json": to_json.render_explanation(found).decode(),
            "markdown": as_markdown.render(outline),
        }


@pytest.fixture(scope="module", params=[LAUNCH_BOUND, "tf_cpu/no_step_markers"])
def judged(request: pytest.FixtureRequest, data: Path) -> Judged:
    profile = open_profile(data / request.param)
    signals = signals_of(profile)
    found = tuple(with_fitting_remedies(profile, one) for one in evaluate(signals))
    return Judged(profile, signals, found)


@pytest.mark.parametrize("rule", [rule.item.id for rule in RULES])
@pytest.mark.sweep(every=5)
def test_every_rule_explains_itself(judged: Judged, rule: str) -> None:
    for text in judged.explained(rule).values():
        assert rule.replace("_", "\\_") in text or rule in text


@pytest.mark.parametrize("judged", [LAUNCH_BOUND], indirect=True)
@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_the_command_line_explains_a_rule_in_every_form(
    data: Path, judged: Judged, form: str
) -> None:
    result = report(data / LAUNCH_BOUND, "--explain", "gaps.between", "--format", form)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == judged.explained("gaps.between")[form].strip()


def test_a_report_in_markdown_leads_with_verdict_and_most_valuable(data: Path) -> None:
    run = data / "gpu/torch_launch_bound"
    text = report(run, "--full", "--format", "markdown").stdout
    first = "Do first (launch.delay): Compile the step and replay it as one graph."
    assert text.index("**The host cannot feed the device") < text.index(first)
    assert text.index(first) < text.index("## Findings")
    assert "- ✗ Launches and device use: 1 critical" in text
    assert "### launch.delay: the device waits" in text


def test_a_report_in_markdown_has_the_sections_of_the_page(data: Path) -> None:
    run = data / "gpu/torch_launch_bound"
    page = report(run, "--full").stdout.splitlines()
    lines = report(run, "--full", "--format", "markdown").stdout.splitlines()
    headings = [one.removeprefix("## ") for one in lines if one.startswith("## ")]
    assert headings == [
        heading for heading, _ in SECTIONS if heading and heading in page
    ]
    assert len(headings) > 5


def test_the_checklist_has_one_line_for_a_stage_without_a_fail(data: Path) -> None:
    text = report(data / "gpu/torch_launch_bound", "--full").stdout
    lines = text[text.index("\nFindings\n") :].splitlines()
    (line,) = (one for one in lines if one.startswith("  ✓ Input: 1 pass"))
    assert "fail" not in line
    where = next(at for at, one in enumerate(lines) if "Launches and device use" in one)
    assert lines[where].startswith("  ✗ Launches and device use: 1 critical")
    assert "    ✗ critical  launch.delay" in lines[where:]
    assert not [one for one in lines if one.strip().startswith("✓ pass")]


def test_a_report_says_what_share_of_its_peak_the_hardware_reaches(
    data: Path,
) -> None:
    name = data / "gpu/torch_healthy"
    found: Any = json.loads(report(name, "--format", "json").stdout)
    hardware = found["hardware"]
    # The program knows its products, 687 GFLOP a step. Their kernels run for 864 µs of
    # it: 795 TFLOP/s, of 989 (data sheet) to 1,066 (at the recorded clock). The other
    # kernels reach little of what their units could do.
    truth: Any = json.loads((name / "truth.json").read_text("utf-8"))
    products_us = sum(
        row["total_self_time_us"]
        for row in found["tools"]["framework_op_stats"]["data"]["rows"]
        if row["name"] in ("aten::mm", "aten::addmm")
        and row["host_or_device"] == "Device"
    )
    rate = 8 * truth["flops_per_step"] / products_us / 1e6
    assert 0.85 * 100 * rate / 1066 < hardware["peak_percent"] < 100 * rate / 989
    assert 80 < hardware["peak_covered_percent"] < 100
    text = plain(report(name).stdout)
    assert f"kernels reach {hardware['peak_percent']:.1f} % of the peak" in text
    cpu: Any = json.loads(report(data / "tf_cpu/healthy", "--format", "json").stdout)
    # Recorded on a two-core machine, as the README beside the data says.
    assert cpu["hardware"]["cores"] == 2
    assert "On 2 cores." in report(data / "tf_cpu/healthy").stdout


@pytest.mark.parametrize(
    ("profile", "rule"),
    [("gpu/torch_launch_bound", "launch.delay"), ("tf_cpu/xla", "input.bound")],
)
@pytest.mark.sweep(every=2)
def test_an_explanation_shows_what_the_critical_path_consists_of(
    data: Path, profile: str, rule: str
) -> None:
    found: Any = json.loads(
        report(data / profile, "--explain", rule, "--format", "json").stdout
    )
    path = found["critical_path"]
    overview: Any = json.loads(report(data / profile, "--format", "json").stdout)
    mean = overview["tools"]["overview_page"]["data"]["step_time_ms"]["mean"]
    assert path["steps"] == overview["tools"]["overview_page"]["data"]["step_count"]
    # Every instant of a step belongs to one piece of its path.
    assert sum(one["percent"] for one in path["owners"]) == pytest.approx(100)
    assert sum(one["ms"] for one in path["owners"]) == pytest.approx(mean, rel=1e-6)
    assert [one["ms"] for one in path["ops"]] == sorted(
        (one["ms"] for one in path["ops"]), reverse=True
    )
    text = report(data / profile, "--explain", rule).stdout
    assert "The critical path of a step" in text


def test_a_recording_without_steps_says_why_it_has_no_path(data: Path) -> None:
    found: Any = json.loads(
        report(
            data / "gpu/kernels", "--explain", "launch.delay", "--format", "json"
        ).stdout
    )
    assert found["critical_path"] is None
    (missing,) = found["missing"]
    assert missing["field"] == "critical_path"
    assert "has no steps" in missing["reason"]
