"""Addresses of profiler servers, as a person writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepscope.errors import BadUsage
from stepscope.remote.addresses import addresses, file_name_of, is_loopback

if TYPE_CHECKING:
    from pathlib import Path


def test_addresses_in_every_form(tmp_path: Path) -> None:
    listed = tmp_path / "hosts"
    listed.write_text("# the cluster\nnode-1:6009\n\nnode-2:6009, node-3:6009 # new\n")
    assert addresses(["grpc://vm:6009, [::1]:7", f"@{listed}", "vm:6009"]) == (
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
        addresses(text)
    assert "\n" not in str(refused.value)


def test_without_any_address() -> None:
    with pytest.raises(BadUsage, match="no address"):
        addresses([" , "])


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


def test_a_name_of_a_tpu_is_refused_with_what_to_give_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TPU_WORKER_HOSTNAMES", raising=False)
    with pytest.raises(
        BadUsage, match=r"names of TPUs .* not looked up.*: my-tpu:6009"
    ):
        addresses("my-tpu")
    # Where the machine itself says who the workers are, they are named.
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "10.0.0.2, t1v-n-1,")
    with pytest.raises(BadUsage, match=r": 10\.0\.0\.2:PORT t1v-n-1:PORT\.$"):
        addresses("grpc://my-tpu")
