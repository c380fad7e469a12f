"""The server says what the command line says, and each thing once."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from tests.support.sites.serve import OLD, put, running

from stepscope.analysis.tools import TOOLS
from stepscope.cli.main import main
from stepscope.serve import frames
from stepscope.serve.app import ROUTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.sites.serve import Site


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory, a1: bytes) -> Path:
    """A log directory with one run of one host, which no test here changes."""
    folder = tmp_path_factory.mktemp("api") / "logs"
    put(folder, "r1", "vm", a1)
    return folder


@pytest.fixture(scope="module")
def site(logdir: Path) -> Iterator[Site]:
    with running(logdir) as found:
        yield found


REAL = "gpu/torch_healthy"


@pytest.fixture(scope="module")
def real_site(shared_profile: Callable[[str], Path]) -> Iterator[Site]:
    with running(shared_profile(REAL)) as found:
        yield found


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(main, [*arguments])
    assert done.exit_code == 0, done.output
    return done.output


def shown(logdir: Path, tool: str, *more: str) -> Any:
    """The envelope; a trace's events, which follow it in the file, are not its part."""
    told = printed("show", tool, str(logdir), "--format", "json", *more)
    beside = {"displayTimeUnit", "traceEvents"}
    return {name: one for name, one in json.loads(told).items() if name not in beside}


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
@pytest.mark.sweep(every=4)
def test_a_tool_answers_as_on_the_command_line(
    site: Site, logdir: Path, tool: str
) -> None:
    answer = site.get(f"data/tool/{tool}?rows=20000")
    assert answer.status == 200
    envelope = answer.json
    assert envelope.pop("cut") == []
    worded = tool in {"pod_viewer", "inference_profile"}
    assert bool(envelope.pop("words")) == (worded and envelope["data"] is not None)
    assert envelope == shown(logdir, tool)


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
@pytest.mark.sweep(every=4)
def test_on_a_real_profile_too(
    real_site: Site, shared_profile: Callable[[str], Path], tool: str
) -> None:
    envelope = real_site.get(f"data/tool/{tool}?rows=20000").json
    assert envelope.pop("cut") == []
    worded = tool in {"pod_viewer", "inference_profile"}
    assert bool(envelope.pop("words")) == (worded and envelope["data"] is not None)
    assert envelope == shown(shared_profile(REAL), tool)


def test_short_names_are_the_same_question(site: Site) -> None:
    assert site.get("data/tool/ops").body == (
        site.get("data/tool/framework_op_stats").body
    )


def test_options_are_those_of_the_tool(site: Site, logdir: Path) -> None:
    envelope = site.get("data/tool/ops?include_idle=true").json
    assert envelope["data"] == shown(logdir, "ops", "--include-idle")["data"]
    assert envelope["data"] != site.get("data/tool/ops").json["data"]


def test_every_declared_option_is_listed_with_its_type(site: Site) -> None:
    listed = {
        tool["name"]: {option["name"]: option["type"] for option in tool["options"]}
        for tool in site.get("data/tools").json["tools"]
    }
    assert set(listed) == {tool.name for tool in TOOLS}
    assert listed["memory_profile"]["points"] == "integer"
    assert listed["memory_profile"]["at_ms"] == "number"
    assert listed["framework_op_stats"]["include_idle"] == "boolean"
    assert all("compat" not in options for options in listed.values())


def test_csv_is_that_of_the_command_line(site: Site, logdir: Path) -> None:
    answer = site.get("data/csv/kernel_stats")
    told = printed("show", "kernel_stats", str(logdir), "--format", "csv")
    assert list(csv.reader(io.StringIO(answer.body.decode()))) == (
        list(csv.reader(io.StringIO(told)))
    )
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == (
        'attachment; filename="kernel_stats_table.csv"'
    )


@pytest.mark.slow(seconds=0.4)
def test_findings_are_those_of_the_report_and_have_words(
    site: Site, logdir: Path
) -> None:
    found = site.get("data/findings").json["findings"]
    words = [finding.pop("words") for finding in found]
    report = json.loads(printed("report", str(logdir), "--format", "json"))
    assert found == report["findings"]
    assert all(one["headline"] for one in words)


def test_what_to_change_is_told_in_the_words_of_the_frameworks_seen(
    repository: Path,
) -> None:
    with running(repository / "tests/data/tf_keras_fit") as site:
        answer = site.get("data/findings").json
    assert answer["frameworks"] == ["TensorFlow"]
    by_status = {"fail": 0, "other": 0}
    others: list[dict[str, str]] = []
    for finding in answer["findings"]:
        told = finding["words"]["actions"]
        predicted = [one.pop("then") for one in told]
        assert all(
            text is None or "step" in text or "not known" in text for text in predicted
        )
        if finding["status"] != "fail":
            by_status["other"] += 1
            assert told == []
            continue
        by_status["fail"] += 1
        assert {one["framework"] for one in told} <= {"TensorFlow", "any"}
        others += [one for one in finding["actions"] if one not in told]
    assert {one["framework"] for one in others} <= {"JAX", "PyTorch", "Python"}
    assert others
    assert all(by_status.values())


@pytest.mark.slow(seconds=0.5)
def test_the_report_is_that_of_the_command_line(site: Site, logdir: Path) -> None:
    # A pipe is as wide as the server's page.
    told = printed("report", "--full", str(logdir))
    assert site.get("data/report").body.decode() == told
    as_json = site.get("data/report?format=json").json
    assert as_json == json.loads(printed("report", str(logdir), "--format", "json"))


def test_hosts_then_another_then_all_then_the_first_again(
    tmp_path: Path, a1: bytes, a5_b: bytes
) -> None:
    """A peer answers the first host's numbers for the second."""
    put(tmp_path, "r1", "a", a1)
    put(tmp_path, "r1", "b", a5_b)

    def total(site: Site, query: str) -> float:
        rows = site.get(f"data/tool/kernel_stats?{query}").json["data"]["rows"]
        return sum(row["total_us"] for row in rows)

    # 8 steps of 100 + 100 + 60 us; on b the second kernel lasts 110.
    with running(tmp_path) as site:
        assert total(site, "hosts=a") == pytest.approx(2080)
        assert total(site, "hosts=b") == pytest.approx(2160)
        assert total(site, "") == pytest.approx(4240)
        assert total(site, "hosts=a") == pytest.approx(2080)
        assert total(site, "hosts=b&hosts=a&hosts=b") == pytest.approx(4240)


def test_long_tables_are_cut_and_told(site: Site) -> None:
    whole = site.get("data/tool/ops").json
    part = site.get("data/tool/ops?rows=2").json
    assert len(whole["data"]["rows"]) > 2
    assert part["data"]["rows"] == whole["data"]["rows"][:2]
    told = {one["table"]: one for one in part["cut"]}
    assert told["rows"] == {
        "table": "rows",
        "rows": len(whole["data"]["rows"]),
        "given": 2,
    }


def rows_of(answer: Any) -> list[dict[str, Any]]:
    names = [column["name"] for column in answer["columns"]]
    return [dict(zip(names, row, strict=True)) for row in answer["rows"]]


def test_pages_of_a_table_are_its_rows(site: Site) -> None:
    rows = site.get("data/tool/ops").json["data"]["rows"]
    first = site.get("data/table/ops?limit=2").json
    later = site.get("data/table/ops?offset=2").json
    assert [row["name"] for row in rows_of(first) + rows_of(later)] == [
        row["name"] for row in rows
    ]
    assert (first["total"], first["matching"]) == (len(rows), len(rows))
    beyond = site.get(f"data/table/ops?offset={10**9}").json
    assert beyond["rows"] == []


def test_a_table_is_sorted_and_filtered_before_it_is_paged(site: Site) -> None:
    everything = site.get("data/tool/kernel_stats").json["data"]["rows"]
    found = site.get(
        "data/table/kernel_stats?sort=kernel_name&descending=true&limit=2"
    ).json
    names = sorted((row["kernel_name"] for row in everything), reverse=True)
    assert [row["kernel_name"] for row in rows_of(found)] == names[:2]
    held = site.get("data/table/kernel_stats?q=SGEMM").json
    expected = [name for name in names if "sgemm" in name.lower()]
    assert sorted(row["kernel_name"] for row in rows_of(held)) == sorted(expected)
    assert (held["total"], held["matching"]) == (len(everything), len(expected))


def test_a_frame_has_the_rows_of_the_table(site: Site) -> None:
    table = site.get("data/table/kernel_stats?limit=20000").json
    frame = frames.decode_frame(site.get("data/frame/kernel_stats").body)
    assert frame.length == table["total"] == len(table["rows"])
    for at, column in enumerate(frame.columns):
        expected = [row[at] for row in table["rows"]]
        assert column.name == table["columns"][at]["name"]
        values = column.values.tolist()
        if column.type == "text":
            values = [frame.names[one] if frame.names else "" for one in values]
        if column.nulls is not None:
            values = [
                None if unknown else one
                for one, unknown in zip(values, column.nulls, strict=True)
            ]
        assert values == expected


def test_any_table_of_a_tool_can_be_asked_for(site: Site) -> None:
    names = site.get("data/table/memory_profile").json["tables"]
    assert site.get("data/table/overview?table=steps").json["total"] == 8
    for name in names:
        answer = site.get(f"data/table/memory_profile?table={quote(name)}")
        assert answer.status == 200


def test_an_unavailable_tool_says_so_in_every_form(site: Site) -> None:
    envelope = site.get("data/tool/tf_data_bottleneck_analysis").json
    assert envelope["data"] is None
    why = envelope["unavailable"]
    assert why["code"] == "NO_TFDATA_EVENTS"
    table = site.get("data/table/tfdata").json
    assert (table["unavailable"], table["rows"]) == (why, [])
    frame = frames.decode_frame(site.get("data/frame/tfdata").body)
    assert (frame.meta["unavailable"], frame.columns) == (why, ())
    answer = site.get("data/csv/tfdata")
    assert (answer.status, answer.error) == (404, "unknown_table")
    assert why["reason"] in answer.json["error"]["message"]


def test_a_known_answer_is_not_sent_again(site: Site) -> None:
    first = site.get("data/tool/overview")
    tag = first.headers["ETag"]
    again = site.get("data/tool/overview", If_None_Match=tag)
    assert (again.status, again.body) == (304, b"")
    other = site.get("data/tool/overview?marker=x", If_None_Match=tag)
    assert other.status == 200
    runs = site.get("data/runs")
    assert site.get("data/runs", If_None_Match=runs.headers["ETag"]).status == 304


def test_head_is_get_without_the_body(site: Site) -> None:
    answer = site.ask("HEAD", "data/tool/overview")
    length = len(site.get("data/tool/overview").body)
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["Content-Length"]) == length


def test_runs_are_newest_first_and_the_newest_is_the_default(
    tmp_path: Path, a1: bytes, a5_b: bytes
) -> None:
    put(tmp_path, "r1", "vm", a1)
    put(tmp_path, "r2", "b", a5_b, unix_s=OLD + 5)
    with running(tmp_path) as site:
        runs = site.get("data/runs").json["runs"]
        assert [run["name"] for run in runs] == ["r2", "r1"]
        assert runs[1]["bytes"] == len(a1)
        assert runs[1]["recorded_unix_ms"] == OLD * 1000
        assert site.get("data/profile").json["profile"]["run"] == "r2"
        answer = site.get(f"data/profile?run={runs[1]['id']}").json
        assert answer["profile"]["run"] == "r1"
        assert answer["profile"]["hosts"] == ["vm"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("data/tool/kernal_stats", 404, "unknown_tool"),
        ("data/tool/pod_viewer_", 404, "unknown_tool"),
        ("data/tool/overview?run=nothing", 404, "unknown_run"),
        ("data/tool/overview?hosts=nobody", 404, "unknown_host"),
        ("data/table/ops?table=nothing", 404, "unknown_table"),
        ("data/table/ops?sort=nothing", 400, "bad_parameter"),
        ("data/tool/overview?marker=a&marker=b", 400, "bad_parameter"),
        ("data/tool/overview?frobnicate=1", 400, "bad_parameter"),
        ("data/tool/overview?host=vm", 400, "bad_parameter"),
        ("data/tool/overview?compat=tensorflow", 400, "bad_parameter"),
        ("data/tool/ops?include_idle=perhaps", 400, "bad_parameter"),
        ("data/tool/memory?points=many", 400, "bad_parameter"),
        ("data/tool/memory?points=-1", 400, "bad_parameter"),
        ("data/tool/memory?at_ms=-1", 400, "bad_parameter"),
        ("data/tool/overview?rows=ten", 400, "bad_parameter"),
        ("data/report?format=html5", 400, "bad_parameter"),
        ("data/nothing", 404, "not_found"),
        ("data", 404, "not_found"),
    ],
)
def test_what_cannot_be_answered_is_one_shape(
    site: Site, path: str, status: int, code: str
) -> None:
    answer = site.get(path)
    assert (answer.status, answer.error) == (status, code)
    assert "\n" not in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "query",
    ["rows=1000000000", "rows=-5", f"offset={10**15}&limit={10**12}", "limit=-1"],
)
def test_numbers_out_of_range_are_brought_into_it(site: Site, query: str) -> None:
    route = "tool" if query.startswith("rows") else "table"
    assert site.get(f"data/{route}/ops?{query}").status == 200


def test_a_log_directory_without_runs_waits_for_them(tmp_path: Path) -> None:
    with running(tmp_path) as site:
        answer = site.get("data/runs").json
        assert answer["runs"] == []
        assert "plugins/profile" in answer["empty"]["remedy"]
        tool = site.get("data/tool/overview")
        assert (tool.status, tool.error) == (404, "no_runs")


def test_every_route_and_code_is_documented(repository: Path) -> None:
    page = (repository / "docs" / "serve.md").read_text(encoding="utf-8")
    assert {route.path for route in ROUTES if f"`{route.path}`" not in page} == set()
    source = repository / "src" / "stepscope" / "serve"
    text = "".join(path.read_text("utf-8") for path in source.rglob("*.py"))
    codes = set(re.findall(r"""\b[45]\d\d,\s+"([a-z_]+)\"""", text))
    assert len(codes) > 10
    assert {code for code in codes if f"`{code}`" not in page} == set()


def test_the_page_is_there_or_says_why_not(site: Site) -> None:
    page = site.get("")
    assert page.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.body == site.get("index.html").body
    entry = site.get("plugin.js")
    assert entry.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert b"export function render()" in entry.body
