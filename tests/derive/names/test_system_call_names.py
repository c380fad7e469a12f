"""Names of functions of the operating system's libraries."""

from __future__ import annotations

import polars as pl
import pytest

from stepscope.derive.names.event_kinds import HostClass, event_kinds
from stepscope.trace.tables import EVENT_TYPES


def class_of(name: str, *, said: bool | None) -> HostClass:
    """What a name is whose producer says that it is no op and no range, or nothing."""
    types = pl.DataFrame(
        {"name": [name], "known": [True], "op": [said], "annotation": [said]},
        schema_overrides=EVENT_TYPES.dtypes(),
    ).with_columns(display_name=pl.lit(None, pl.String))
    return HostClass(int(event_kinds(event_types=types).host_class[0]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pthread_cond_wait", HostClass.SYSTEM_WAIT),
        ("pthread_mutex_lock", HostClass.SYSTEM_WAIT),
        ("sem_timedwait", HostClass.SYSTEM_WAIT),
        ("epoll_wait", HostClass.SYSTEM_WAIT),
        ("usleep", HostClass.SYSTEM_WAIT),
        ("waitpid", HostClass.SYSTEM_WAIT),
        ("recvmsg", HostClass.SYSTEM_WAIT),
        ("read", HostClass.FILE_READ),
        ("pread64", HostClass.FILE_READ),
        ("preadv2", HostClass.FILE_READ),
        ("fread", HostClass.FILE_READ),
        ("fread_unlocked", HostClass.FILE_READ),
        ("getline", HostClass.FILE_READ),
        ("write", HostClass.SYSTEM_CALL),
        ("ioctl", HostClass.SYSTEM_CALL),
        ("open64", HostClass.SYSTEM_CALL),
        ("__open64", HostClass.SYSTEM_CALL),
        ("pthread_create", HostClass.SYSTEM_CALL),
        ("sem_post", HostClass.SYSTEM_CALL),
        ("pthread_cond_signal", HostClass.SYSTEM_CALL),
        ("reader", HostClass.NONE),
        ("epoll", HostClass.NONE),
        ("mread", HostClass.NONE),
        ("cudaStreamSynchronize", HostClass.SYNC),
        ("cudaMalloc", HostClass.API),
    ],
)
def test_a_function_of_the_system_is_known_by_its_name(
    name: str, expected: HostClass
) -> None:
    assert class_of(name, said=False) == expected


@pytest.mark.parametrize("name", ["read", "poll", "ioctl"])
def test_a_name_of_which_nothing_is_said_is_no_function_of_the_system(
    name: str,
) -> None:
    assert class_of(name, said=None) == HostClass.NONE
