"""Remedies for missing values, adapted to the recorder and the program's frameworks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import msgspec

from stepscope.derive.frameworks import frameworks_used
from stepscope.derive.host.function_frames import MIN_RECORDING_SAMPLES
from stepscope.derive.host.placed_frames import function_frames
from stepscope.derive.host.tracers import tracers
from stepscope.derive.names.event_kinds import event_kinds
from stepscope.remedies import FittingRemedy, Remedy, Tracers, fit_remedy
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

_WithRemedies = TypeVar("_WithRemedies", bound=msgspec.Struct)


def with_fitting_remedies(
    profile: ProfileData, remediable: _WithRemedies
) -> _WithRemedies:
    """Return a result, or a reason, with remedies that fit the recording.

    With several hosts, a tracer counts as on only if it was on at all hosts. Remedies
    mention only frameworks that the program uses.

    Args:
        remediable: A result with `missing`, a finding with `unavailable`, or a reason.
    """
    if isinstance(remediable, Unavailable | Missing):
        if not isinstance(remediable.remedy, Remedy):
            return remediable
        text = _fitting_remedy(profile, remediable.remedy).words
        return msgspec.structs.replace(remediable, remedy=text)
    changed: dict[str, object] = {}
    missing = getattr(remediable, "missing", ())
    if any(isinstance(entry.remedy, Remedy) for entry in missing):
        changed["missing"] = tuple(
            with_fitting_remedies(profile, entry) for entry in missing
        )
    why = getattr(remediable, "unavailable", None)
    if isinstance(why, Unavailable) and isinstance(why.remedy, Remedy):
        changed["unavailable"] = with_fitting_remedies(profile, why)
    return msgspec.structs.replace(remediable, **changed) if changed else remediable


def remedy_to_do(profile: ProfileData, why: Unavailable) -> str | None:
    """Return how to get a missing value; None if the program cannot have the value."""
    if not isinstance(why.remedy, Remedy):
        return why.remedy
    fitting = _fitting_remedy(profile, why.remedy)
    return None if fitting.asks_nothing else fitting.words


def _fitting_remedy(profile: ProfileData, remedy: Remedy) -> FittingRemedy:
    if remedy is Remedy.RECORD_WITH_STEPSCOPE:
        environments = [profile.table(host, "environment") for host in profile.hosts]
        # The used collectors are known only for recordings by stepscope.
        if all(
            not isinstance(environment, Unavailable)
            and environment["collectors"].null_count() < len(environment)
            for environment in environments
        ):
            return FittingRemedy(words=Remedy.OTHER_MACHINE.value)
    if remedy is Remedy.RECORD_UNKNOWN_TIME:
        # Number of stack samples by host; inf where every call was recorded.
        host_frames = (profile.derived(host, function_frames) for host in profile.hosts)
        sample_counts = [
            math.inf if count is None else count
            for frames in host_frames
            if not isinstance(frames, Unavailable)
            for count in (frames.looks(),)
        ]
        if sample_counts and max(sample_counts) < MIN_RECORDING_SAMPLES:
            return FittingRemedy(words=Remedy.LONGER_FOR_LOOKS.value)
        if sample_counts:
            return FittingRemedy(words=Remedy.ANNOTATE_UNKNOWN_TIME.value)
    if not remedy.depends_on_recording:
        return FittingRemedy(words=remedy.value)
    return fit_remedy(
        remedy, _tracers_in_force(profile), profile.of_run(frameworks_used)
    )


def _tracers_in_force(profile: ProfileData) -> Tracers:
    recorder = recorder_without_levels(profile)
    if recorder is not None:
        # This recorder has no levels, so the events have to show which tracers were on.
        ops, work, frames = [], [], []
        for host in profile.hosts:
            kinds = profile.derived(host, event_kinds)
            activity = profile.table(host, "device_activity")
            host_tracers = profile.derived(host, tracers)
            ops.append(not isinstance(kinds, Unavailable) and bool(kinds.is_op().any()))
            work.append(not isinstance(activity, Unavailable) and activity.height > 0)
            frames.append(
                not isinstance(host_tracers, Unavailable) and bool(host_tracers.python)
            )
        return Tracers(
            host=2 if all(ops) else None,
            device=1 if all(work) else None,
            python=1 if all(frames) else None,
            recorder=recorder,
        )
    every_host = [profile.derived(host, tracers) for host in profile.hosts]
    known = [
        level_of_tracers
        for level_of_tracers in every_host
        if not isinstance(level_of_tracers, Unavailable)
    ]
    if len(known) < len(every_host):
        return Tracers()
    return Tracers(
        host=_lowest_level([level_of_tracers.host for level_of_tracers in known]),
        device=_lowest_level([level_of_tracers.device for level_of_tracers in known]),
        python=_lowest_level([level_of_tracers.python for level_of_tracers in known]),
    )


def recorder_without_levels(profile: ProfileData) -> str | None:
    """Return the recorder of all hosts' files if that recorder has no tracer levels.

    The recorder is `kineto` or `nsight`; None for TensorFlow, JAX and stepscope.
    """
    recorders = {profile.trace(host).recorder for host in profile.hosts}
    return recorders.pop() if len(recorders) == 1 else None


def _lowest_level(levels: list[int | None]) -> int | None:
    known = [level for level in levels if level is not None]
    return min(known) if known and len(known) == len(levels) else None
