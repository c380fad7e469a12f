"""Log directories elsewhere, on a real S3 server on loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from tests.support.sites.serve import running

import stepscope as ss
from stepscope.cli.main import main
from stepscope.errors import BadInput
from stepscope.formats.file_systems import is_url
from stepscope.formats.remote import Cache, RemoteDirectory, RemoteFile
from stepscope.remote import client, server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("moto", reason="needs moto (pip install '.[test]')")
s3fs = pytest.importorskip("s3fs", reason="needs s3fs (pip install '.[test]')")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(
        program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            end = time.monotonic() + 60
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert process.poll() is None
                    assert time.monotonic() < end
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.fixture
def bucket(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Any]:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "STEPSCOPE_CACHE": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    system = s3fs.S3FileSystem()
    system.mkdir("logs")
    yield system
    system.invalidate_cache()
    system.rm("logs", recursive=True)


def put(system: Any, run: str, host: str, content: bytes) -> str:
    path = f"logs/exp/plugins/profile/{run}/{host}.xplane.pb"
    system.pipe_file(path, content)
    return path


def fetched(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "cache").rglob("*.xplane.pb")}


@pytest.mark.slow(seconds=1.0)
def test_the_newest_run_of_a_bucket_opens_and_only_it_is_fetched(
    bucket: Any, tmp_path: Path, a1: bytes, a5_b: bytes
) -> None:
    put(bucket, "2025_01_01_00_00_00", "old", a1)
    put(bucket, "2026_01_01_00_00_00", "a", a1)
    put(bucket, "2026_01_01_00_00_00", "b", a5_b)
    bucket.pipe_file("logs/exp/train/events.out.tfevents.1", b"x" * 100)
    done = CliRunner().invoke(
        main, ["show", "kernels", "s3://logs", "--format", "json"]
    )
    assert done.exit_code == 0, done.output
    answer = json.loads(done.output)
    assert answer["profile"]["run"] == "exp/2026_01_01_00_00_00"
    assert answer["profile"]["hosts"] == ["a", "b"]
    assert sum(row["total_us"] for row in answer["data"]["rows"]) == pytest.approx(4240)
    assert fetched(tmp_path) == {"a.xplane.pb", "b.xplane.pb"}


@pytest.mark.parametrize(
    "url",
    [
        "s3://logs/exp/plugins/profile/r1",
        "s3://logs/exp/plugins/profile/r1/",
        "s3://logs/exp/plugins/profile",
        "s3://logs/exp",
        "s3://logs/exp/plugins/profile/r1/vm.xplane.pb",
    ],
)
@pytest.mark.sweep(every=4)
def test_any_level_of_the_tree_is_a_path(bucket: Any, a1: bytes, url: str) -> None:
    put(bucket, "r1", "vm", a1)
    remote = RemoteDirectory(url)
    (run,) = remote.runs()
    assert run.name.rsplit("/", 1)[-1] == "r1"
    assert [host.host for host in run.hosts] == ["vm"]
    (host,) = remote.fetched(run).hosts
    assert host.paths[0].read_bytes() == a1


@pytest.mark.slow(seconds=0.7)
def test_a_bucket_is_served_and_refreshed(
    bucket: Any, tmp_path: Path, a1: bytes, a5_b: bytes
) -> None:
    put(bucket, "2026_01_01_00_00_00", "vm", a1)
    with running("s3://logs") as site:
        (run,) = site.get("data/runs").json["runs"]
        assert (run["state"], run["bytes"]) == ("ready", len(a1))
        assert fetched(tmp_path) == set()
        assert len(site.get("data/tool/overview").json["data"]["steps"]) == 8
        assert fetched(tmp_path) == {"vm.xplane.pb"}
        put(bucket, "2026_01_01_00_00_00", "vm", a5_b)
        put(bucket, "2026_01_02_00_00_00", "next", a1)
        site.ask("POST", "data/reload", {"X-Stepscope": "1"})
        runs = site.get("data/runs").json["runs"]
        assert [one["hosts"] for one in runs] == [["next"], ["vm"]]
        assert (runs[1]["id"], runs[1]["version"] != run["version"]) == (
            run["id"],
            True,
        )
        rows = site.get(f"data/tool/kernels?run={run['id']}").json["data"]["rows"]
        assert sum(row["total_us"] for row in rows) == pytest.approx(2160)


def test_loose_traces_in_a_bucket_are_one_run(bucket: Any) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1}
    trace = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "traceEvents": [{**event, "ts": at * 10, "dur": 5} for at in range(20)],
        "traceName": "rank0.pt.trace.json",
    }
    bucket.pipe_file("logs/rank0.pt.trace.json", json.dumps(trace).encode())
    with running("s3://logs") as site:
        (run,) = site.get("data/runs").json["runs"]
        assert run["name"] == "logs"
        assert site.get("data/profile").status == 200


def test_what_cannot_be_listed_is_one_clear_line(bucket: Any) -> None:
    assert bucket
    for url in ("s3://logs", "s3://nothing-there/x"):
        done = CliRunner().invoke(main, ["report", url])
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert url in done.stderr
    with running("s3://logs") as site:
        assert site.get("data/runs").json["runs"] == []
        assert "s3://logs" in site.get("data/runs").json["empty"]["reason"]


@pytest.mark.parametrize(
    ("module", "expected"),
    [("fsspec.core", "needs the package fsspec"), ("s3fs", "needs a package")],
)
def test_a_missing_package_is_named_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch, module: str, expected: str
) -> None:
    s3fs.S3FileSystem.clear_instance_cache()
    registry = pytest.importorskip("fsspec.registry")
    monkeypatch.setattr(registry, "_registry", {})
    monkeypatch.setattr(
        registry, "registry", registry.types.MappingProxyType(registry._registry)
    )
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BadInput, match=expected) as caught:
        RemoteDirectory("s3://logs")
    assert "pip install fsspec s3fs gcsfs" in str(caught.value)


def test_the_cache_lets_go_of_what_was_not_used(tmp_path: Path) -> None:
    cache = Cache(tmp_path, most_bytes=250)
    places = []
    for number in range(3):
        file = RemoteFile(path=f"b/{number}.pb", size=100, tag="t", unix_s=0)
        place = cache.place("m://b", file)
        place.parent.mkdir(parents=True)
        place.write_bytes(bytes(100))
        os.utime(place, (1000 + number, 1000 + number))
        places.append(place)
    os.utime(places[0], (2000, 2000))
    cache.prune_unused([places[2]])
    assert [place.exists() for place in places] == [True, False, True]
    with pytest.raises(BadInput, match="more than the cache"):
        cache.place("m://b", RemoteFile(path="b/x", size=251, tag="", unix_s=0))


@pytest.mark.slow
def test_a_recording_goes_into_a_bucket_and_no_bucket_is_made(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow: a bucket that does not exist is asked for several times."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    listening = server.start(0)
    try:
        outcome = client.trace(listening.address, "s3://logs/exp", 50)
        with pytest.raises(client.CaptureFailed, match="the profile is kept in"):
            client.trace(listening.address, "s3://absent/exp", 50)
    finally:
        listening.stop()
    name = listening.address.replace(":", "_")
    (file,) = bucket.find("logs/exp")
    assert file == f"logs/exp/plugins/profile/{outcome.run}/{name}.xplane.pb"
    assert ss.open(outcome.directory).hosts == (name,)
    assert not bucket.exists("absent")
    assert len(list(tmp_path.glob("stepscope-*/*/*.xplane.pb"))) == 1


def test_a_new_version_has_another_place(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    first = RemoteFile(path="b/x.pb", size=1, tag="ETag=1", unix_s=0)
    second = RemoteFile(path="b/x.pb", size=1, tag="ETag=2", unix_s=0)
    assert cache.place("m://b", first) != cache.place("m://b", second)
    assert cache.place("m://b", first).name == "x.pb"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://b/k", True),
        ("gs://b", True),
        ("memory://x", True),
        ("C:\\logs", False),
        ("c://logs", False),
        ("logs/a", False),
        ("/a://b", False),
        ("a b://c", False),
    ],
)
def test_urls_are_told_from_paths(text: str, expected: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert is_url(text) == expected
