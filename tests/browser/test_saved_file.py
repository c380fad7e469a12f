"""The page in one file, opened from the disk: the tests of the page, and its own."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest
from tests.browser.test_hostile_names import watched  # noqa: F401 - of its tests
from tests.support.sites.browser import whole_server
from tests.support.sites.saved import saved_files

from stepscope.serve.saved.run_answers import encode_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.sites.saved import SavedFiles
    from tests.support.sites.view import View

#: Pages whose tests are also done with files, and those of which only long runs do.
PAGES = (
    *("every_page", "framework_op_stats", "kernel_stats", "model_views"),
    *("trace_viewer", "into_the_timeline", "hostile_names"),
)
MORE_PAGES = (
    *("findings", "overview_page", "roofline_model", "input_pipeline_analyzer"),
    *("memory_profile", "pod_viewer", "trace_stretches", "trace_arranged"),
    "same_words",
)
#: What only a server can do: explain any time, filter by a pattern, export, show text
#: of the program, sum any time, find events of any op; or what a test tells a server.
OF_A_SERVER = {
    "test_a_dialog_of_the_menu_stays_and_the_menu_behind_it",
    "test_a_line_is_reached_and_left_for_its_op_by_keyboard",
    "test_a_long_name_of_a_run_does_not_widen_a_phones_page",
    "test_a_measured_time_is_summed_by_key",
    "test_a_row_of_ops_leads_to_the_side_that_it_is_of",
    "test_a_server_that_explains_nothing_is_said",
    "test_a_window_of_too_many_events_says_why_it_is_not_saved",
    "test_an_area_is_summed_by_owner_op_and_kernel",
    "test_a_selected_time_has_a_flame_graph",
    "test_counters_are_in_no_table_and_no_sum",
    "test_counters_of_a_selected_time_have_their_mean",
    "test_hostile_state_in_the_address_is_inert",
    "test_idle_time_of_a_device_is_explained",
    "test_lines_have_their_time_beside_the_text",
    "test_names_can_be_chosen_by_pattern",
    "test_names_of_runs_can_be_read_on_a_phone",
    "test_ops_of_the_host_and_of_the_device_are_summed_apart",
    "test_other_gaps_are_explained_on_request",
    "test_the_selected_time_is_a_table_by_name",
    "test_the_timeline_is_drawn_and_clickable",
    "test_the_window_is_saved_for_other_viewers",
    "test_what_is_not_on_the_timeline_is_said",
}
for page in (*PAGES, *MORE_PAGES):
    mark = pytest.mark.integration if page in PAGES else pytest.mark.thorough
    module = importlib.import_module(f"tests.browser.test_{page}")
    for name, member in list(vars(module).items()):
        if name.startswith("test_") and name not in OF_A_SERVER:
            globals()[name] = mark(member)

READ_TILE = """async (address) => {
    const bytes = await (await fetch(address)).arrayBuffer();
    const length = new DataView(bytes).getUint32(0, true);
    const text = new TextDecoder().decode(new Uint8Array(bytes, 4, length));
    const header = JSON.parse(text);
    const views = {i4: Int32Array, f8: Float64Array, u1: Uint8Array, text: Uint32Array,
        i8: BigInt64Array};
    return header.columns.map(({name, type, offset, bytes: size}) => {
        const View = views[type];
        const values = [...new View(bytes, offset, size / View.BYTES_PER_ELEMENT)];
        return [name, values.map(type === 'text' ? (id) => header.names[id] : Number)];
    });
}"""


@pytest.fixture(scope="module")
def server(
    chromium: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SavedFiles]:
    del chromium
    with whole_server(tmp_path_factory.mktemp("logs")) as found:
        yield saved_files(found, tmp_path_factory.mktemp("files"))


@pytest.mark.parametrize("run", ["vector", "keras", "jax"])
def test_tiles_are_those_of_the_server(
    run: str, view: View, server: SavedFiles, reader: Any
) -> None:
    """At all resolutions, for recorded and derived tracks, and for counters."""
    live = reader.new_page()
    live.goto(server.live.address)
    view.go("trace_viewer", run=run)
    catalogue = view.page.evaluate(
        "async () => (await fetch('data/trace/catalogue')).json()"
    )
    spans = [each["track"] for each in catalogue["tracks"] if not each["counter"]]
    counters = [each["track"] for each in catalogue["tracks"] if each["counter"]]
    compared = 0
    for kind, tracks in (("tiles", spans), ("counters", counters)):
        for level in range(0, catalogue["coarsest_level"] + 1, 3) if tracks else ():
            middle = (catalogue["begin_ps"] + catalogue["end_ps"]) // 2
            index = middle // (catalogue["tile_buckets"] << level)
            asked = "&".join(f"track={track}" for track in tracks[:64])
            address = f"data/trace/{kind}?level={level}&index={index}&{asked}"
            truth = live.evaluate(READ_TILE, f"{address}&run={server.live.runs[run]}")
            assert dict(view.page.evaluate(READ_TILE, address)) == dict(truth), address
            compared += len(truth[0][1])
    assert compared > 50
    live.close()


def test_addresses_are_encoded_as_the_browser_does(view: View) -> None:
    name = "a*b~c (d) 'e' é/ü+f&g=h!"
    view.go("findings", run="jax")
    script = "(name) => new URLSearchParams([['op', name]]).toString()"
    assert view.page.evaluate(script, name) == encode_options([("op", name)])


def test_a_table_is_sorted_filtered_and_exported_without_a_server(view: View) -> None:
    view.go("framework_op_stats", run="keras")
    view.page.get_by_label("Filter ops").first.fill("conv")
    view.page.wait_for_timeout(400)
    shown = view.page.locator("main section.table tbody tr").all_inner_texts()
    assert shown
    assert all("conv" in row.lower() for row in shown)
    with view.page.expect_download() as told:
        view.page.get_by_text("Export as CSV").first.click()
    rows = told.value.path().read_text("utf-8").splitlines()
    assert len(rows) == len(shown) + 1


def test_what_the_file_lacks_is_said(view: View) -> None:
    view.go("model_views", run="keras", find="dense")
    said = view.page.locator("main").inner_text()
    assert "This file does not contain it. Open the recording itself" in said
