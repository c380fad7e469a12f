"""`diff` is the comparison of `report --against`, and the server's."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from tests.support.sites.serve import OLD, running

from stepscope.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.sites.serve import Site

pytestmark = pytest.mark.usefixtures("opened_once")

GRAPH, HEALTHY = "gpu/torch_graph", "gpu/torch_healthy"
KINDS = {"appeared", "vanished", "slowed", "quickened", "same"}


@pytest.fixture(scope="module")
def data(repository: Path) -> Path:
    return repository / "tests" / "data"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture(scope="module")
def found(data: Path) -> Any:
    done = run("diff", data / HEALTHY, data / GRAPH, "--format", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.slow(seconds=0.6)
@pytest.mark.parametrize("form", ["text", "json", "markdown"])
@pytest.mark.sweep(every=3)
def test_it_is_the_report_against_the_base(data: Path, form: str) -> None:
    short = run("diff", data / HEALTHY, data / GRAPH, "--format", form)
    long = run("report", data / GRAPH, "--against", data / HEALTHY, "--format", form)
    assert (short.exit_code, short.stdout) == (0, long.stdout)


@pytest.mark.slow(seconds=0.4)
def test_the_categories_and_the_owners_add_up_to_the_change(found: Any) -> None:
    time = found["step_time"]
    for field in ("breakdown", "owners"):
        parts = found[field]
        assert sum(one["change_ms"] for one in parts) == pytest.approx(
            time["change_ms"]
        )
        assert sum(one["share_percent"] for one in parts) == pytest.approx(100)
        assert sum(one["base_ms"] for one in parts) == pytest.approx(time["base_ms"])
        assert sum(one["new_ms"] for one in parts) == pytest.approx(time["new_ms"])


def test_each_change_has_a_kind_and_its_share(found: Any) -> None:
    whole = found["step_time"]["change_ms"]
    for field in ("breakdown", "owners", "ops", "kernels"):
        for one in found[field]:
            assert one["kind"] in KINDS
            assert one["share_percent"] == pytest.approx(100 * one["change_ms"] / whole)
            if one["kind"] in {"appeared", "vanished"}:
                side = "base_ms" if one["kind"] == "appeared" else "new_ms"
                assert one[side] is None
            elif one["kind"] in {"slowed", "quickened"}:
                assert (one["kind"] == "slowed") == (one["change_ms"] > 0)
            if one["low_ms"] is not None:
                by_chance = one["low_ms"] <= 0 <= one["high_ms"]
                assert by_chance == (one["kind"] == "same")


def test_the_steps_of_the_chart_are_those_of_the_means(found: Any) -> None:
    for side in ("base", "new"):
        one = found[side]
        assert one["columns"]["steps_per_column"] == 1
        columns = list(zip(*one["columns"]["breakdown_ms"].values(), strict=True))
        assert len(columns) == one["steps"]
        heights = [sum(column) for column in columns]
        assert sum(heights) / len(heights) == pytest.approx(one["mean_ms"])


def test_the_words_name_what_explains_the_change(data: Path, found: Any) -> None:
    text = " ".join(run("diff", data / HEALTHY, data / GRAPH).stdout.split())
    words = found["words"]
    assert words["verdict"] in text
    for sentence in (*words["explaining"], *words["checks"]):
        assert sentence in text
    largest = max(found["owners"], key=lambda one: abs(one["change_ms"]))
    assert largest["name"] == "launch"
    share = f"{largest['share_percent']:.1f} % of the change"
    assert words["explaining"][0].startswith("Largest causes: waiting for launches")
    assert share in words["explaining"][0]


def test_a_kernel_is_told_apart_by_its_op_where_both_runs_have_it(data: Path) -> None:
    done = run(
        "diff",
        data / "gpu/jax_healthy_without_graphs",
        data / "gpu/jax_healthy_without_graphs",
        "--format",
        "json",
    )
    same: Any = json.loads(done.stdout)
    scoped = [one for one in same["kernels"] if one["scope"] is not None]
    assert scoped
    assert {one["kind"] for one in same["kernels"]} == {"same"}
    places = [(one["name"], one["scope"]) for one in same["kernels"]]
    assert len(places) == len(set(places))


@pytest.mark.slow(seconds=0.4)
def test_runs_that_cannot_be_compared_have_no_shares(data: Path) -> None:
    done = run("diff", data / "tf_cpu/healthy", data / "tf_cpu/xla", "--format", "json")
    other: Any = json.loads(done.stdout)
    assert (other["step_time"], other["breakdown"], other["ops"]) == (None, None, None)
    assert other["words"]["verdict"].startswith("Not comparable.")
    assert other["words"]["explaining"] == []
    assert other["base"]["columns"] is not None


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A log directory with both runs; the server counts old files as written."""
    logs = tmp_path_factory.mktemp("two") / "logs"
    for name in (GRAPH, HEALTHY):
        (run_of,) = (data / name / "plugins" / "profile").iterdir()
        target = logs / "plugins" / "profile" / run_of.name
        shutil.copytree(run_of, target)
        for file in target.iterdir():
            os.utime(file, (OLD, OLD))
    return logs


@pytest.fixture
def site(two_runs: Path) -> Iterator[Site]:
    with running(two_runs) as started:
        yield started


def ids(site: Site, found: Any) -> dict[str, str]:
    by_name = {one["name"]: one["id"] for one in site.get("data/runs").json["runs"]}
    return {side: by_name[found[side]["run"]] for side in ("base", "new")}


@pytest.mark.slow(seconds=0.6)
def test_the_server_gives_the_same_answer(site: Site, found: Any) -> None:
    run_ids = ids(site, found)
    address = f"data/compare?run={run_ids['new']}&base={run_ids['base']}"
    first = site.get(address)
    assert first.status == 200
    assert first.json == found
    again = site.get(address, If_None_Match=first.headers["ETag"])
    assert (again.status, again.body) == (304, b"")
    # The other way round, from what was taken of both before.
    back = site.get(f"data/compare?run={run_ids['base']}&base={run_ids['new']}").json
    assert back["step_time"]["change_ms"] == pytest.approx(
        -found["step_time"]["change_ms"]
    )
    # The run that is asked about next is read again where it was closed.
    assert site.get(f"data/profile?run={run_ids['new']}").status == 200


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 400, "bad_parameter"),
        ("run={new}", 400, "bad_parameter"),
        ("run={new}&base={new}", 400, "bad_parameter"),
        ("run={new}&base=nobody", 404, "unknown_run"),
        ("run=nobody&base={base}", 404, "unknown_run"),
        ("run={new}&base={base}&same_work=perhaps", 400, "bad_parameter"),
        ("run={new}&base={base}&colour=red", 400, "bad_parameter"),
    ],
)
def test_the_server_refuses_what_it_cannot_compare(
    site: Site, found: Any, query: str, status: int, code: str
) -> None:
    answer = site.get(f"data/compare?{query.format(**ids(site, found))}")
    assert (answer.status, answer.error) == (status, code)
