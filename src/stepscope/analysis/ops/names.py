"""The names of the ops of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.host.op_events import host_op_events
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData


def op_names(profile: ProfileData) -> frozenset[str]:
    """Return the names by which the table of ops lists what ran, on any host."""
    names: set[str] = set()
    for host in profile.hosts:
        for found in (
            profile.derived(host, host_op_events),
            profile.derived(host, activity_ops),
        ):
            if not isinstance(found, Unavailable):
                names.update(found.ops["name"].drop_nulls().to_list())
    return frozenset(names)
