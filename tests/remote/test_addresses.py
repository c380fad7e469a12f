"""Addresses of profiler servers, as a person writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from stepscope.errors import BadUsage
from stepscope.remote.addresses import file_name_of, is_loopback, parse_addresses

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_addresses_in_every_form(tmp_path: Path) -> None:
    listed = tmp_path / "hosts"
    listed.write_text("# the cluster\nnode-1:6009\n\nnode-2:6009, node-3:6009 # new\n")
    assert parse_addresses(["grpc://vm:6009, [::1]:7", f"@{listed}", "vm:6009"]) == (
        "vm:6009",
        "[::1]:7",
        "node-1:6009",
        "node-2:6009",
        "node-3:6009",
    )


@pytest.mark.parametrize(
    "text",
    ["vm", "vm:", "vm:0", "vm:70000", "::1:6009", "vm:6009/x", "a b:1", "@/none"],
)
def test_what_is_no_address_is_one_line(text: str) -> None:
    with pytest.raises(BadUsage) as refused:
        parse_addresses(text)
    assert "\n" not in str(refused.value)


def test_without_any_address() -> None:
    with pytest.raises(BadUsage, match="no address"):
        parse_addresses([" , "])


def test_which_hosts_are_this_machine_alone() -> None:
    assert [is_loopback(it) for it in ("localhost", "127.0.0.9", "::1", "[::1]")] == (
        [True] * 4
    )
    assert [is_loopback(it) for it in ("0.0.0.0", "::", "vm", "10.0.0.1")] == (  # noqa: S104 - a name that is asked about
        [False] * 4
    )


def test_a_file_name_holds_no_colon_and_does_not_begin_with_a_dot() -> None:
    assert file_name_of("[::1]:6009") == "1_6009"
    assert file_name_of("../x:1") == "x_1"


def test_a_name_without_a_port_is_refused_with_what_to_give_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TPU_WORKER_HOSTNAMES", raising=False)
    with pytest.raises(
        BadUsage, match=r"not looked up.*: my-tpu:6009\. .*tpu://my-tpu"
    ):
        parse_addresses("my-tpu")
    # Where the machine itself says who the workers are, they are named.
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "10.0.0.2, t1v-n-1,")
    with pytest.raises(BadUsage, match=r": 10\.0\.0\.2:PORT t1v-n-1:PORT\. "):
        parse_addresses("grpc://my-tpu")


#: What Google's command line prints of a TPU with two workers, shortened.
DESCRIBED = {
    "name": "projects/p/locations/us-central2-b/nodes/my-tpu",
    "networkEndpoints": [
        {"ipAddress": "10.130.0.12", "port": 8470},
        {"accessConfig": {"externalIp": "34.1.2.3"}, "ipAddress": "10.130.0.13"},
    ],
    "state": "READY",
}


def command_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> Callable[[], list[str]]:
    """Put a `gcloud` on the path; what it was asked."""
    program = folder / "gcloud"
    program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n{script}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return lambda: (folder / "asked").read_text().splitlines()


def test_a_tpu_means_all_of_its_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tpu.json").write_text(json.dumps(DESCRIBED))
    asked = command_line(tmp_path, monkeypatch, f"cat {tmp_path}/tpu.json")
    assert parse_addresses("tpu://my-tpu:6009,vm:1") == (
        *("10.130.0.12:6009", "10.130.0.13:6009"),
        "vm:1",
    )
    parse_addresses("tpu://us-central2-b/my-tpu:6009")
    describe = "compute tpus tpu-vm describe my-tpu --format=json"
    assert asked() == [describe, f"{describe} --zone=us-central2-b"]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo NOT_FOUND: no such node >&2; exit 1", "does not know .*NOT_FOUND"),
        ("exit 3", "exit status 3"),
        ("echo no JSON", "as JSON"),
        ('echo \'{"state": "STOPPED"}\'', "no workers .*STOPPED"),
    ],
)
def test_a_tpu_that_is_not_found_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    command_line(tmp_path, monkeypatch, script)
    with pytest.raises(BadUsage, match=why):
        parse_addresses("tpu://my-tpu:6009")


def test_without_googles_command_line_its_name_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadUsage, match="Google Cloud CLI"):
        parse_addresses("tpu://my-tpu:6009")


@pytest.mark.parametrize(
    "text",
    ["tpu://my-tpu", "tpu://my-tpu:0", "tpu://--help:1", "tpu://a b:1", "tpu://"],
)
def test_a_name_that_cannot_be_one_asks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    asked = command_line(tmp_path, monkeypatch, "exit 1")
    with pytest.raises(BadUsage, match=r"tpu://|host:port"):
        parse_addresses(text)
    with pytest.raises(FileNotFoundError):
        asked()
