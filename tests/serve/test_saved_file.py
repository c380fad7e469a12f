"""`report --format html`: one file with the answers of the server, and nothing else."""

from __future__ import annotations

import base64
import gzip
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner
from tests.conftest import DATA, ROOT
from werkzeug.test import Client

from stepscope.analysis.timeline.tiles import slices_of_all_tracks
from stepscope.cli.main import main
from stepscope.serve.app import App
from stepscope.serve.frames import decode_frame
from stepscope.serve.runs.source import open_source
from stepscope.serve.runs.store import Store
from stepscope.serve.saved.html_file import write_html
from stepscope.serve.saved.redaction import own_words, redact_run
from stepscope.serve.saved.run_answers import collect_answers
from stepscope.session import open_profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.analysis.tools import ProfileWithTools

RECORDINGS = {
    "torch_gpu": ROOT / "src/stepscope/cli/demo_profiles/torch_input_bound",
    "keras": ROOT / "tests/data/tf_keras_fit",
    "jax": ROOT / "tests/data/jax_marked",
    "nsight": DATA / "gpu/ways/flight",
}
BLOCK = re.compile(
    r'<script type="application/octet-stream" id="data-([^"]+)">([^<]*)<'
)


def blocks(html: bytes) -> dict[str, bytes]:
    """The data in a file by name, decompressed."""
    return {
        name: gzip.decompress(base64.b64decode(text))
        for name, text in BLOCK.findall(html.decode())
    }


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_file_has_the_answers_of_the_server(name: str) -> None:
    """Its own remarks aside; the server cuts pages of tables shorter."""
    path = RECORDINGS[name]
    client = Client(App(Store(open_source(str(path))), {}))
    stored = collect_answers(open_profile(path)).answers
    compared = 0
    for address, answer in stored.items():
        if not address.startswith(("data/tool/", "data/table/", "data/findings")):
            continue
        more = "&limit=2000" if "?" in address else "?limit=2000"
        rows = more if address.startswith("data/table/") else ""
        if "op=" in address or "scope=" in address:
            continue  # cut shorter: tables of all ops stand beside
        told = client.get(f"/{address}{rows}")
        assert msgspec.json.decode(told.data) == msgspec.json.decode(answer), address
        compared += 1
    assert compared > 40


def test_the_file_asks_nobody_and_runs_its_own_scripts_only() -> None:
    html, names = write_html(open_profile(RECORDINGS["keras"]))
    text = html.decode()
    assert names == {}
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r'<(?:script|link|img)[^>]* (?:src|href)="(?!data:)', text)
    scripts = re.findall(r"<script(?: type=\"module\")?>", text)
    assert len(scripts) == policy.count("sha256-") - 1 == 2


def test_no_span_is_lost_where_slices_are_few() -> None:
    profile = open_profile(RECORDINGS["keras"])
    (host,) = profile.hosts
    everything = slices_of_all_tracks(profile, host, most=10**9)
    some = slices_of_all_tracks(profile, host, most=500)
    assert isinstance(everything, tuple)
    assert isinstance(some, tuple)
    assert everything[0] == 0
    assert some[0] > 0
    assert some[1].height <= 500 < everything[1].height
    for column in ("count", "busy_ps"):
        assert some[1][column].sum() == everything[1][column].sum()


def private_words(run: Any) -> set[str]:
    """Words of the names of a recording that stepscope itself does not contain."""
    names = {*run.slices[0].slices["name"], *run.slices[0].slices["full_name"]}
    public = [name for name in names if name.startswith("Iterator::")]
    words = set(re.findall(r"\w{3,}", " ".join(names)))
    words -= set(re.findall(r"\w{3,}", " ".join(public)))
    known = own_words()
    return {
        word
        for word in words
        if re.search(r"[^\W\d_]", word)
        and word not in known
        and re.sub(r"_?\d+$", "", word) not in known
    }


def profile_names(profile: ProfileWithTools) -> set[str]:
    """All names of events, as recorded."""
    slices = collect_answers(profile).slices
    return {name for host in slices for name in host.slices["full_name"]}


def test_a_redacted_file_has_no_name_of_the_program(tmp_path: Path) -> None:
    file, names = tmp_path / "r.html", tmp_path / "names.json"
    path = str(RECORDINGS["keras"])
    asked = ["report", path, "--format", "html", "-o", str(file), "--redact"]
    done = CliRunner().invoke(main, [*asked, "--redact-map", str(names)])
    assert done.exit_code == 0, done.stderr
    private = private_words(collect_answers(open_profile(path)))
    assert {"compile_loss", "random_flip_left_right", "conv2d_1_2"} <= private
    html = file.read_bytes()
    kept = b"\n".join(blocks(html).values()).decode("utf-8", "replace")
    left = set(re.findall(r"\w{3,}", kept)) & private
    assert left == set()
    profile = open_profile(path)
    scopes = {name for name in profile_names(profile) if "/" in name}
    assert len(scopes) > 20
    whole = [profile.run, *profile.hosts, *scopes, "tf_keras_fit"]
    found = [re.search(rf"(?<!\w){re.escape(name)}(?!\w)", kept) for name in whole]
    assert not any(found)
    told = msgspec.json.decode(names.read_bytes())
    assert private <= set(told.values())
    assert all(hash_ in kept for hash_ in told)


def test_kernels_of_public_libraries_keep_their_names() -> None:
    run = collect_answers(open_profile(RECORDINGS["torch_gpu"]))
    redacted = redact_run(run).run
    names = [*run.slices[0].slices["full_name"].unique()]
    kernels = {name for name in names if re.search("gemm|at::native", name)}
    assert len(kernels) > 3
    assert kernels <= {*redacted.slices[0].slices["full_name"].unique()}


def test_times_and_items_are_written_as_differences() -> None:
    run = collect_answers(open_profile(RECORDINGS["jax"]))
    slices, _ = run.slices[0].encode_columns()
    frame = decode_frame(slices)
    column = {each.name: each.values for each in frame.columns}
    truth = run.slices[0].slices
    assert column["start_ps"].cumsum().tolist() == truth["start_ps"].to_list()
    assert column["item"].cumsum().tolist() == truth["item"].to_list()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--format html writes a file: add -o FILE"),
        (["--against", "x", "-o", "f"], "--format html is about one run"),
    ],
)
def test_options_that_do_not_fit_are_said(options: list[str], said: str) -> None:
    path = str(RECORDINGS["jax"])
    done = CliRunner().invoke(main, ["report", path, "--format", "html", *options])
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    "name", ["kineto/dlrm_8rank_v100", "torch_cpu/schedule_dataloader"]
)
def test_runs_with_ops_on_some_hosts_and_scopes_without_ops_are_saved(
    name: str, shared_profile: Callable[[str], Path]
) -> None:
    profile = open_profile(shared_profile(name))
    html, _ = write_html(profile)
    assert len(blocks(html)) == 1 + 2 * len(profile.hosts)


def test_redaction_is_of_a_file_with_the_page() -> None:
    done = CliRunner().invoke(main, ["report", str(RECORDINGS["jax"]), "--redact"])
    assert "--redact is about a file with the page: add --format html" in done.stderr
