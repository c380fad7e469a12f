"""One table says whose time an event of a host thread is, and who reads that."""

from __future__ import annotations

from collections import Counter

from tests.support.traces import blueprint

from stepscope.derive.account.topics import TOPICS
from stepscope.derive.names.event_kinds import SYSTEM_CLASSES
from stepscope.derive.step_time.host_classes import event_categories
from stepscope.derive.step_time.host_time import (
    CATEGORY_OF_CODE,
    CODE_OF_CLASS,
    CODE_OF_SYSTEM_CLASS,
    HOST_TIMES,
    HostCode,
    codes_that_name,
)
from stepscope.derive.step_time.owners import CATEGORIES, IDLE_OWNERS
from stepscope.unavailable import require_available

#: Their time is that of what encloses them, or of other threads.
WITHOUT_OWNER = {HostCode.NOTHING, HostCode.BLOCKED}


def test_each_code_has_one_owner_of_the_account() -> None:
    counts = Counter(it.code for it in HOST_TIMES)
    assert counts == Counter(set(HostCode) - WITHOUT_OWNER)
    assert {it.owner for it in HOST_TIMES} <= set(IDLE_OWNERS)
    assert {name for it in HOST_TIMES for name in it.names} <= {*IDLE_OWNERS, *TOPICS}


def test_each_class_has_one_code() -> None:
    classes = [it.of_class for it in HOST_TIMES if it.of_class is not None]
    assert len(classes) == len(set(classes))
    assert set(CODE_OF_SYSTEM_CLASS) == set(SYSTEM_CLASSES)
    assert not CODE_OF_CLASS.keys() & CODE_OF_SYSTEM_CLASS.keys()


def test_what_names_an_owner_is_its_own_or_beside_it() -> None:
    assert HostCode.GARBAGE in codes_that_name("garbage")
    assert codes_that_name("peer") == (HostCode.PEER,)
    assert codes_that_name("unfed") == ()


def test_a_copy_that_a_call_waits_for_is_drawn_as_the_account_has_it() -> None:
    """1 ms of `cudaMemcpy` for 0.9 ms of copying to the host: output, not other."""
    assert CATEGORY_OF_CODE[HostCode.COPY_OUT] == "output"
    assert CATEGORY_OF_CODE[HostCode.COPY_IN] == "input"
    assert CATEGORY_OF_CODE[HostCode.PEER] == "device_collectives"
    lines: list[blueprint.Line] = [
        ("main", "cudaMemcpy", 0, 1_000, {"correlation_id": 7}),
        (
            "gpu:0/8(MemcpyD2H)",
            "MemcpyD2H",
            50,
            900,
            {
                "correlation_id": 7,
                "memcpy_details": "kind:D2H size:4096 dest:0 async:0",
            },
        ),
    ]
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    profile = blueprint.profile(trace)
    categories = require_available(profile.derived("vm", event_categories))
    call = require_available(profile.table("vm", "launches"))["event"][0]
    assert CATEGORIES[categories[call]] == "output"
