"""Remedies for missing values, adapted to the recorder and the program's frameworks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import msgspec

from stepscope.derive.frameworks import frameworks_used
from stepscope.derive.host.function_frames import LEAST_LOOKS, function_frames
from stepscope.derive.host.tracers import tracers
from stepscope.derive.names.event_kinds import event_kinds
from stepscope.remedies import FittingRemedy, Remedy, Tracers, fit_remedy
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

_Told = TypeVar("_Told", bound=msgspec.Struct)


def with_fitting_remedies(profile: ProfileData, told: _Told) -> _Told:
    """Return a result, or a reason, with remedies that fit the recording.

    With several hosts, a tracer counts as on only if it was on at all hosts. Remedies
    mention only frameworks that the program uses.

    Args:
        told: A result with `missing`, a finding with `unavailable`, or a reason.
    """
    if isinstance(told, Unavailable | Missing):
        if not isinstance(told.remedy, Remedy):
            return told
        words = _fitting_remedy(profile, told.remedy).words
        return msgspec.structs.replace(told, remedy=words)
    changed: dict[str, object] = {}
    missing = getattr(told, "missing", ())
    if any(isinstance(one.remedy, Remedy) for one in missing):
        changed["missing"] = tuple(
            with_fitting_remedies(profile, one) for one in missing
        )
    why = getattr(told, "unavailable", None)
    if isinstance(why, Unavailable) and isinstance(why.remedy, Remedy):
        changed["unavailable"] = with_fitting_remedies(profile, why)
    return msgspec.structs.replace(told, **changed) if changed else told


def remedy_to_do(profile: ProfileData, why: Unavailable) -> str | None:
    """Return what to do, or None if the program cannot have the missing value."""
    if not isinstance(why.remedy, Remedy):
        return why.remedy
    fitting = _fitting_remedy(profile, why.remedy)
    return None if fitting.asks_nothing else fitting.words


def _fitting_remedy(profile: ProfileData, remedy: Remedy) -> FittingRemedy:
    if remedy is Remedy.RECORD_WITH_STEPSCOPE:
        environments = [profile.table(host, "environment") for host in profile.hosts]
        # Only stepscope's recordings name their collectors.
        if all(
            not isinstance(one, Unavailable)
            and one["collectors"].null_count() < len(one)
            for one in environments
        ):
            return FittingRemedy(words=Remedy.OTHER_MACHINE.value)
    if remedy is Remedy.RECORD_UNKNOWN_TIME:
        # Number of stack samples by host; inf where every call was recorded.
        found = (profile.derived(host, function_frames) for host in profile.hosts)
        looks = [
            math.inf if looks is None else looks
            for one in found
            if not isinstance(one, Unavailable)
            for looks in (one.looks(),)
        ]
        if looks and max(looks) < LEAST_LOOKS:
            return FittingRemedy(words=Remedy.LONGER_FOR_LOOKS.value)
        if looks:
            return FittingRemedy(words=Remedy.ANNOTATE_UNKNOWN_TIME.value)
    if not remedy.depends_on_recording:
        return FittingRemedy(words=remedy.value)
    return fit_remedy(
        remedy, _tracers_in_force(profile), profile.of_run(frameworks_used)
    )


def _tracers_in_force(profile: ProfileData) -> Tracers:
    recorder = recorder_without_levels(profile)
    if recorder is not None:
        # The recorder has no levels: infer from the events which tracers were on.
        ops, work, frames = [], [], []
        for host in profile.hosts:
            kinds = profile.derived(host, event_kinds)
            activity = profile.table(host, "device_activity")
            told = profile.derived(host, tracers)
            ops.append(not isinstance(kinds, Unavailable) and bool(kinds.is_op().any()))
            work.append(not isinstance(activity, Unavailable) and activity.height > 0)
            frames.append(not isinstance(told, Unavailable) and bool(told.python))
        return Tracers(
            host=2 if all(ops) else None,
            device=1 if all(work) else None,
            python=1 if all(frames) else None,
            recorder=recorder,
        )
    found = [profile.derived(host, tracers) for host in profile.hosts]
    known = [one for one in found if not isinstance(one, Unavailable)]
    if len(known) < len(found):
        return Tracers()
    return Tracers(
        host=_least_level([one.host for one in known]),
        device=_least_level([one.device for one in known]),
        python=_least_level([one.python for one in known]),
    )


def recorder_without_levels(profile: ProfileData) -> str | None:
    """Return the recorder of all hosts' files if that recorder has no tracer levels.

    `kineto` or `nsight`; None for recordings of TensorFlow, JAX and stepscope.
    """
    recorders = {profile.trace(host).recorder for host in profile.hosts}
    return recorders.pop() if len(recorders) == 1 else None


def _least_level(levels: list[int | None]) -> int | None:
    known = [level for level in levels if level is not None]
    return min(known) if known and len(known) == len(levels) else None
