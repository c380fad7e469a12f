"""Predicted savings of changes, from replays of the steps' dependency graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from stepscope.derive.columns.arrays import ACTIVITY_CODES, codes
from stepscope.derive.facts.evidence import Limits, Saving
from stepscope.derive.facts.savings.what_if_changes import Recorded, apply_change
from stepscope.derive.replay.activities import NO_STEPS
from stepscope.derive.replay.critical import Silences, path_owners, silent_share
from stepscope.derive.replay.node_times import (
    joint_gain,
    largest_floor_ps,
    replayed_gain,
)
from stepscope.derive.replay.nodes import joint_edit
from stepscope.derive.run_derivation import of_run
from stepscope.derive.verdicts.effect_status import mean_interval_ms
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import polars as pl

    from stepscope.derive.account.host_states import HostStates
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.account.topics import IdleTopics
    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.facts.savings.what_if_changes import Change, Edits
    from stepscope.derive.replay.node_times import Gain, Identity
    from stepscope.derive.replay.nodes import Edit, Graph
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_time.device_sets import DeviceSets
    from stepscope.derive.step_time.host_classes import HostClasses

#: Direction of copies → their kind of activity.
_COPIES: Final = {"copy_in": ACTIVITY_CODES["h2d"], "copy_out": ACTIVITY_CODES["d2h"]}
#: Minimum busy share of a device that no wait delays.
_MIN_SATURATED_SHARE: Final = 0.95
#: If unrecorded time of threads is more than this percentage of the critical path after
#: a change, the saving is unknown.
_MAX_SILENT_PERCENT: Final = 10.0


class HostReplay(Frozen, frozen=True):
    """The dependency graph of one host, and the data for computing its changes.

    Attributes:
        recorded: The graph and the recorded data.
        identity: How well a replay without a change reproduces the recording.
        host_states: What each thread is doing over time; Unavailable without names.
    """

    recorded: Recorded
    identity: Identity
    host_states: HostStates | Unavailable

    @property
    def graph(self) -> Graph:
        """Return the dependency graph of the replayed steps."""
        return self.recorded.graph

    def edits_for_changes(
        self, changes: Iterable[Change], device: int | None
    ) -> tuple[Edits, ...]:
        """Return the graph edits of each change."""
        return tuple(apply_change(change, self.recorded, device) for change in changes)

    def gains_of_edits(self, edits: Sequence[Edits]) -> tuple[Gain, Gain]:
        """Return the smallest and the largest gain of all changes together."""
        low, high = ([edit.least for edit in edits], [edit.most for edit in edits])
        first = self._joint_gain(low)
        same = all(a is b for a, b in zip(low, high, strict=True))
        return first, first if same else self._joint_gain(high)

    def _joint_gain(self, edits: list[Edit]) -> Gain:
        if len(edits) == 1:
            return replayed_gain(self.graph, edits[0])
        return joint_gain(self.graph, edits)

    def path_owners(self, edits: Sequence[Edits]) -> dict[str, float]:
        """Return cause → its percentage of the critical path after the changes."""
        return path_owners(
            self.graph,
            joint_edit(self.graph, [edit.most for edit in edits]),
            account=self.recorded.account,
            host_states=self.host_states,
            device_sets=self.recorded.device_sets,
            silences=self._silent_threads(),
        )

    def _silent_threads(self) -> Silences:
        recorded = self.recorded
        return Silences(self.graph, recorded.host_classes, recorded.device_busy)

    def spread_ms(self, gains: tuple[Gain, Gain]) -> tuple[float, float]:
        """Return the range of the gain, in ms per step, over the replayed windows."""
        low, high = _gain_range(gains[0])
        if gains[1] is not gains[0]:
            high = _gain_range(gains[1])[1]
        return low, high

    def promised_saving(
        self,
        edits: Sequence[Edits],
        limits: Limits | None,
        bound: Saving | None,
        device: int | None = None,
    ) -> Saving | None:
        """Return the predicted saving of changes in the mean step; None if unknown.

        On a device that is always busy, faster kernels shorten the step by the time
        that they save, because nothing else delays the device.

        Args:
            limits: Time affected by the changes in a mean step, and duration of this
                step; None if the mean is that of the replayed steps.
            bound: Greatest saving according to the breakdown of step time.
        """
        gains = self.gains_of_edits(edits)
        if (
            bound is not None
            and all(edit.only_faster for edit in edits)
            and self._is_saturated(device)
        ):
            gain = replace(gains[1], floor_ps=self._floor_without_silence(edits))
            saving = self._replayed_saving(bound.low, bound.high)
            return saving.within(_raise_floor(limits, gain))
        scale = _gain_scale(edits, None if limits is None else limits.effect_ms, bound)
        if scale is None or not self.explains_path(edits, gains):
            return None
        low, high = (gain_ms * scale for gain_ms in self.spread_ms(gains))
        if bound is not None:
            high = min(high, bound.high)
            if any(edit.partly for edit in edits):
                low = min(low, bound.low)
        return self._replayed_saving(low, high).within(_raise_floor(limits, gains[1]))

    def explains_path(self, edits: Sequence[Edits], gains: tuple[Gain, Gain]) -> bool:
        """Return whether records explain the critical path after edits.

        Unrecorded time may contain what delays the step after the changes.
        """
        if not any(edit.device for edit in edits):
            return all(gain.is_reportable for gain in gains)
        joint = joint_edit(self.graph, [edit.most for edit in edits])
        silent = silent_share(self.graph, joint, self._silent_threads())
        enough = 100 * silent <= _MAX_SILENT_PERCENT
        return enough and all(gain.is_reportable for gain in gains)

    def _replayed_saving(self, low: float, high: float) -> Saving:
        error_percent = self.identity.median_error_percent
        return Saving(
            low=low, high=high, basis="replay", identity_error_percent=error_percent
        )

    def _is_saturated(self, device: int | None) -> bool:
        sets, chosen = self.recorded.device_sets, self.graph.sampled
        busy_ps = sum(
            times.busy.clip(chosen.first_ps, chosen.last_ps).length_ps
            for times in (() if isinstance(sets, Unavailable) else sets.devices)
            if times.device == device
        )
        return busy_ps >= _MIN_SATURATED_SHARE * (chosen.last_ps - chosen.first_ps)

    def _floor_without_silence(self, edits: Sequence[Edits]) -> float:
        """Return the floor after edits; silent threads wait for a busy device."""
        edit = joint_edit(self.graph, [edit.most for edit in edits])
        silences, dur_ps = self._silent_threads(), edit.dur_ps.copy()
        held = np.flatnonzero(silences.may_hold(np.arange(self.graph.count)))
        for node in held.tolist():
            dur_ps[node] -= min(silences.silent_time(node), int(dur_ps[node]))
        return largest_floor_ps(self.graph, replace(edit, dur_ps=dur_ps))


class ReplaySignals(Frozen, frozen=True):
    """The replays of a profile.

    Attributes:
        hosts: Host → its replay, or the reason why there is none.
    """

    hosts: Mapping[str, HostReplay | Unavailable]

    def reason(self, label: str) -> Unavailable | None:
        """Return why gains on a device or host are unknown; None if they are known."""
        replay = self.hosts.get(self.host_of_label(label), NO_STEPS)
        return replay if isinstance(replay, Unavailable) else replay.identity.why_not

    def saving_of_changes(
        self,
        changes: Sequence[Change],
        label: str,
        *,
        limits: Limits | None = None,
        bound: Saving | None = None,
    ) -> Saving | None:
        """Return the saving per step if all changes are made; None if unknown.

        The replayed steps are a sample. The saving is multiplied by the affected time
        in a mean step, divided by the affected time in the sample.

        Args:
            limits: Time affected by the changes in a mean step, and duration of this
                step; None to use the sample unscaled.
            bound: Greatest saving according to the breakdown of step time.
        """
        replay = self.usable_replay(label)
        if replay is None or not changes:
            return None
        edits = replay.edits_for_changes(changes, self.device_of_label(label))
        device = self.device_of_label(label)
        return replay.promised_saving(edits, limits, bound, device)

    def together(
        self, findings: Sequence[tuple[Sequence[Change], str, Saving]], limits: Limits
    ) -> Saving | None:
        """Return the predicted saving per step if all of a host's findings are fixed.

        The sum of the findings' predicted savings is multiplied by the gain of all
        changes together, divided by the sum of single gains. None if unknown.
        """
        replay = self.usable_replay(findings[0][1])
        if replay is None:
            return None
        edits = [
            replay.edits_for_changes(changes, self.device_of_label(label))
            for changes, label, _ in findings
        ]
        singles = [replay.gains_of_edits(own_edits) for own_edits in edits]
        joint = replay.gains_of_edits([edit for group in edits for edit in group])
        if not all(gain.is_reportable for gain in joint):
            return None
        promised = [saving for _, _, saving in findings]
        lows = [saving.low for saving in promised]
        highs = [saving.high for saving in promised]
        single_low_ps = sum(smallest.low_ps for smallest, _ in singles)
        single_high_ps = sum(largest.high_ps for _, largest in singles)
        low, high = (
            (min(joint_ps / single_ps, 1.0) if single_ps > 0 else 0.0) * sum(savings)
            for joint_ps, single_ps, savings in (
                (joint[0].low_ps, single_low_ps, lows),
                (joint[1].high_ps, single_high_ps, highs),
            )
        )
        return Saving(
            low=max(low, *lows),
            high=max(high, *highs),
            basis="replay",
            identity_error_percent=replay.identity.median_error_percent,
            open_above=any(saving.open_above for saving in promised),
        ).within(_raise_floor(limits, joint[1]))

    def next_bottleneck(
        self, changes: Sequence[Change], label: str
    ) -> tuple[str, float] | None:
        """Return the cause with most time on the critical path after some changes.

        The second value is the cause's share of the path in percent. The profiler's own
        time is excluded: a run without a profiler does not have it. None if unknown.
        """
        replay = self.usable_replay(label)
        if replay is None:
            return None
        edits = replay.edits_for_changes(changes, self.device_of_label(label))
        if not replay.explains_path(edits, replay.gains_of_edits(edits)):
            return None
        owners = replay.path_owners(edits)
        return next((share for share in owners.items() if share[0] != "profiler"), None)

    def usable_replay(self, label: str) -> HostReplay | None:
        """Return the replay of a device's host; None if it is not reliable."""
        replay = self.hosts.get(self.host_of_label(label))
        if replay is None or isinstance(replay, Unavailable):
            return None
        return replay if replay.identity.stands else None

    def host_of_label(self, label: str) -> str:
        """Return the host part of a label of a device or host."""
        return label if label in self.hosts else label.rpartition(":")[0]

    def device_of_label(self, label: str) -> int | None:
        """Return the number of a device from its label; None for a host's label."""
        return None if label in self.hosts else int(label.rpartition(":")[2])


def _gain_scale(
    edits: Sequence[Edits], effect_ms: float | None, bound: Saving | None
) -> float | None:
    """Return the factor from a gain in the replay to the mean step; None if unknown."""
    scales = []
    for compared, step_effect_ms in (
        ("effect", effect_ms),
        ("bound", None if bound is None else bound.high),
    ):
        sampled = [edit for edit in edits if edit.compared == compared]
        own = [edit.effect_ms for edit in sampled if edit.effect_ms is not None]
        meant = sum(own) if own else step_effect_ms
        if not sampled or meant is None:
            continue
        claimed = sum(edit.claimed_ms for edit in sampled)
        if claimed <= 0:
            return None
        scales.append(meant / claimed)
    return scales[0] if scales else 1.0


def _raise_floor(limits: Limits | None, gain: Gain) -> Limits:
    """Return `limits` whose floor is at least the busiest track's remaining time.

    That time is scaled down if the mean step is shorter than the replayed steps.
    """
    period_ms = gain.period_ps / PS_PER_MS
    effect_ms, step_ms, floor_ms = (
        (None, None, 0.0)
        if limits is None
        else (limits.effect_ms, limits.step_ms, limits.floor_ms)
    )
    step_ms = period_ms if step_ms is None else step_ms
    part = min(step_ms / period_ms, 1.0) if period_ms else 0.0
    return Limits(effect_ms, step_ms, max(gain.floor_ps / PS_PER_MS * part, floor_ms))


def _gain_range(gain: Gain) -> tuple[float, float]:
    """Return the range of a gain in ms per step, with its uncertainty over the windows.

    Other steps may gain less, so the low end is that of the 95 % confidence interval of
    the mean gain, resampled as for verdicts. The high end of this interval is not used.
    """
    # Ends are relative to the mean gain, since upper bounds may have reduced `low`.
    ends = [
        mean_interval_ms(gains.tolist())[0] * PS_PER_MS / mean
        for gains in gain.by_window_ps
        for mean in [float(gains.mean())]
        if mean > 0
    ]
    low_ps = gain.low_ps * min([1.0, *ends])
    return max(low_ps, 0.0) / PS_PER_MS, gain.high_ps / PS_PER_MS


def host_replay(
    *,
    step_graph: Graph,
    replay_check: Identity,
    account: Account,
    host_classes: HostClasses,
    tracks: pl.DataFrame,
    device_activity: pl.DataFrame | Unavailable,
    activity_classes: ActivityClasses | Unavailable,
    device_sets: DeviceSets | Unavailable,
    idle_topics: IdleTopics | Unavailable,
    host_states: HostStates | Unavailable,
) -> HostReplay:
    """Collect the dependency graph of a host and the data for computing changes."""
    class_of = np.empty(0, np.int32)
    copies, is_collective = {}, np.empty(0, np.bool_)
    if not isinstance(activity_classes, Unavailable) and not isinstance(
        device_activity, Unavailable
    ):
        class_of = activity_classes.code
        kinds = codes(device_activity, "kind")
        copies = {owner: kinds == code for owner, code in _COPIES.items()}
        is_collective = kinds == ACTIVITY_CODES["collective"]
    topics = () if isinstance(idle_topics, Unavailable) else idle_topics.devices
    recorded = Recorded(
        step_graph,
        account,
        host_classes,
        device_sets,
        tracks,
        class_of,
        copies,
        is_collective,
        {topic.device: topic.spans for topic in topics},
    )
    return HostReplay(recorded, replay_check, host_states)


@of_run
def replay_signals(*, host_replay: OfHosts[HostReplay]) -> ReplaySignals:
    """Return the replays of all hosts."""
    return ReplaySignals(host_replay)
