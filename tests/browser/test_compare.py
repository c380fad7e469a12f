"""Compare: two runs side by side, the words first, on one ruler."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from tests.browser.test_accessibility import violations
from tests.conftest import DATA
from tests.support.sites.browser import OLDEST, Server
from tests.support.sites.serve import running

from stepscope.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.sites.view import View

LONG_NAME = "resnet50_" + "lr_0.001_batch_4096_bf16_true_seed_12345_" * 3
#: Run → recording: two of the same work, and one whose work nothing proves the same.
RUNS = {
    "healthy": "gpu/torch_healthy",
    "graph": "gpu/torch_graph",
    "jax": "gpu/jax_healthy_without_graphs",
    "starved": "gpu/jax_input_bound_without_graphs",
    LONG_NAME: "gpu/torch_healthy",
}


@pytest.fixture(scope="module")
def server(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    del chromium  # without one there is nobody to serve
    logs = tmp_path_factory.mktemp("compared")
    for name, recording in RUNS.items():
        (run,) = (DATA / recording / "plugins" / "profile").iterdir()
        target = logs / "plugins" / "profile" / name
        shutil.copytree(run, target)
        for file in target.iterdir():
            os.utime(file, (OLDEST, OLDEST))
    with running(logs) as site:
        runs = {one["name"]: one["id"] for one in site.get("data/runs").json["runs"]}
        yield Server(f"http://127.0.0.1:{site.port}/", logs, runs)


def told(server: Server, base: str, new: str, *more: str) -> Any:
    paths = [str(server.path_of(name)) for name in (base, new)]
    done = CliRunner().invoke(main, ["diff", *paths, "--format", "json", *more])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def opened(view: View, server: Server, base: str, new: str) -> View:
    view.go("compare", run=new, base=server.runs[base])
    view.page.wait_for_selector(".verdict")
    return view


def test_that_both_do_the_same_work_is_part_of_the_link(
    view: View, server: Server
) -> None:
    opened(view, server, "jax", "starved")
    stated = view.page.get_by_label("I state that both runs do the same work in a step")
    stated.check()
    view.settle()
    assert view.fragment["same_work"] == "yes"
    words = told(server, "jax", "starved", "--same-work")["words"]
    view.page.reload()
    view.settle()
    assert stated.is_checked()
    assert view.page.locator(".verdict").inner_text() == words["verdict"]
    stated.uncheck()
    assert "same_work" not in view.fragment


def test_long_names_of_runs_do_not_make_a_phone_scroll_sideways(
    view: View, server: Server
) -> None:
    view.page.set_viewport_size({"width": 390, "height": 800})
    opened(view, server, LONG_NAME, "healthy")
    width = view.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390


def table(view: View, name: str) -> list[dict[str, str | None]]:
    found: list[dict[str, str | None]] = view.page.get_by_role(
        "region", name=name, exact=True
    ).evaluate(
        """(section) => [...section.querySelectorAll('tbody tr')].map((row) => ({
            name: row.dataset.name, kind: row.dataset.kind,
            exact: [...row.querySelectorAll('td.number')].map((each) => each.title)
        }))"""
    )
    return found


def test_the_words_are_those_of_the_command_line(view: View, server: Server) -> None:
    truth = told(server, "healthy", "graph")
    opened(view, server, "healthy", "graph")
    text = view.page.locator("main").inner_text()
    assert view.page.locator(".verdict").inner_text() == truth["words"]["verdict"]
    for sentence in truth["words"]["explaining"]:
        assert sentence in text
    for promise in truth["words"]["promises"]:
        assert promise in text


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(
    ("title", "field"),
    [
        ("By category", "breakdown"),
        ("By cause of the time", "owners"),
        ("Ops", "ops"),
        ("Kernels", "kernels"),
    ],
)
def test_a_table_holds_the_numbers_of_the_json(
    view: View, server: Server, title: str, field: str
) -> None:
    truth = [
        one
        for one in told(server, "healthy", "graph")[field]
        if one["base_ms"] or one["new_ms"]
    ]
    opened(view, server, "healthy", "graph")
    more = view.page.get_by_role("region", name=title, exact=True).get_by_role("button")
    if more.count():
        assert len(table(view, title)) < len(truth)
        more.click()
    shown = table(view, title)
    assert len(shown) == len(truth)
    for row, one in zip(shown, truth, strict=True):
        assert (row["name"], row["kind"]) == (one["name"], one["kind"])
        numbers = [one[key] for key in ("base_ms", "new_ms", "change_ms")]
        for exact, value in zip(row["exact"] or (), numbers, strict=False):
            assert (float(exact) if exact else None) == value


def test_both_runs_stand_on_one_ruler(view: View, server: Server) -> None:
    truth = told(server, "healthy", "graph")
    opened(view, server, "healthy", "graph")
    rulers = []
    for side in ("base", "new"):
        columns = view.page.get_by_role("list", name=f"One column for each {side} step")
        count = columns.get_by_role("listitem").count()
        assert count == truth[side]["steps"]
        rulers.append(columns.locator(".axis text").all_inner_texts())
    assert rulers[0] == rulers[1]
    view.click("button", "As a table")
    rows = view.page.locator("figure tbody tr").all_inner_texts()
    assert len(rows) == max(truth[side]["steps"] for side in ("base", "new"))


def test_work_that_is_not_proven_the_same_may_be_stated(
    view: View, server: Server
) -> None:
    opened(view, server, "jax", "starved")
    verdict = view.page.locator(".verdict")
    assert verdict.inner_text().startswith("Not comparable.")
    assert view.page.get_by_role("region", name="Ops", exact=True).count() == 0
    # Both runs are shown all the same.
    assert view.page.get_by_role("list", name=re.compile("^One column")).count() == 2
    view.page.get_by_role("checkbox").check()
    view.settle()
    stated = told(server, "jax", "starved", "--same-work")["words"]["verdict"]
    assert verdict.inner_text() == stated
    view.page.get_by_role("checkbox").uncheck()
    view.settle()
    assert verdict.inner_text().startswith("Not comparable.")


def test_the_picker_chooses_the_run_to_compare_with(view: View, server: Server) -> None:
    view.go("findings", run="graph")
    view.picker("Compare with").select_option(server.runs["healthy"])
    view.page.wait_for_selector(".verdict")
    view.settle()
    assert view.fragment["page"] == "compare"
    assert view.fragment["base"] == server.runs["healthy"]
    # It stays chosen on the way to other pages, and back.
    view.click("link", "Kernels")
    assert view.fragment["base"] == server.runs["healthy"]
    view.click("link", "Compare")
    assert "graph" in view.page.locator("figure").inner_text()
    view.picker("Compare with").select_option("")
    view.settle()
    assert "base" not in view.fragment
    assert "with which run?" in view.page.locator("main").inner_text()


def test_a_run_is_not_compared_with_itself_or_with_nobody(
    view: View, server: Server
) -> None:
    for base in (server.runs["graph"], "nobody"):
        view.go("compare", run="graph", base=base)
        links = view.page.locator("main .panel a")
        others = {"healthy", "jax", "starved", LONG_NAME}
        assert set(links.all_inner_texts()) == others
    view.click("link", "healthy")
    view.page.wait_for_selector(".verdict")
    assert view.fragment["base"] == server.runs["healthy"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_stands_out_of_a_narrow_page(
    window: Callable[..., View], server: Server, axe: str, theme: str
) -> None:
    view = window(width=390, theme=theme)
    opened(view, server, "healthy", "graph")
    wide = view.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390
    assert violations(view, axe) == []
    for details in view.page.locator("main details").all():
        details.evaluate("(each) => { each.open = true; }")
    view.click("button", "As a table")
    assert violations(view, axe) == []


def test_both_runs_lie_below_each_other_step_by_step(
    view: View, server: Server
) -> None:
    opened(view, server, "healthy", "graph")
    view.page.get_by_role("link", name="Show both runs in Trace").click()
    view.settle()
    below = view.page.get_by_role("region", name="healthy, step by step")
    assert below.locator(".track").count() > 0
    assert view.fragment["beside"] == "@base"
    below.get_by_role("button", name="Take healthy away").click()
    view.settle()
    assert below.count() == 0
    view.page.locator("summary", has_text="Below").click()
    view.page.get_by_label("healthy, step by step").check()
    view.settle()
    assert below.locator(".track").count() > 0
