"""What a step would gain without the time of some owners, from its dependencies."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.bootstrap import ratio_interval
from stepscope.advice.finding import Saving
from stepscope.advice.signals.signal import signal
from stepscope.derive.account.host_states import host_states
from stepscope.derive.account.owned_time import account
from stepscope.derive.replay.claims import threads_faster
from stepscope.derive.replay.critical import next_owner
from stepscope.derive.replay.gains import gain_of, joint_gain
from stepscope.derive.replay.graph import step_graph
from stepscope.derive.replay.identity import replay_check
from stepscope.derive.replay.owners import claimed_ps, without_owners
from stepscope.derive.replay.sampled import NO_STEPS
from stepscope.derive.step_time.device_sets import device_sets
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.account.host_states import HostStates
    from stepscope.derive.account.owned_time import Account
    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.replay.claims import Edit
    from stepscope.derive.replay.gains import Gain
    from stepscope.derive.replay.identity import Identity
    from stepscope.derive.replay.nodes import Graph
    from stepscope.derive.step_time.device_sets import DeviceSets
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.thresholds import Thresholds

    #: Owners whose time goes, and where it lies: "inside", "between" or "any".
    Claim = tuple[Collection[str], str]

__all__ = ["HostReplay", "ReplaySignals", "replay_signals"]

#: Fewer windows have no interval of their mean.
_FEW: Final = 3


class HostReplay(Frozen, frozen=True):
    """The graph of one host, and what claims about owners are worked out from.

    Attributes:
        graph: The graph.
        identity: How well a replay without a change repeats the recording.
        account: The account.
        host_classes: What threads do.
        host_states: What that claims; Unavailable without names.
        device_sets: What devices did.
        tracks: The table.
    """

    graph: Graph
    identity: Identity
    account: Account
    host_classes: HostClasses
    host_states: HostStates | Unavailable
    device_sets: DeviceSets | Unavailable
    tracks: pl.DataFrame

    def without(self, claim: Claim, device: int | None) -> Edit:
        """Return the claim that the time of some owners goes."""
        owners, place = claim
        return without_owners(
            self.graph,
            owners,
            place=place,
            device=device,
            account=self.account,
            host_classes=self.host_classes,
            device_sets=self.device_sets,
            tracks=self.tracks,
        )

    def claimed_ms(self, claims: Sequence[Claim], device: int | None) -> float:
        """Return the time per replayed step that some claims are about."""
        whole = sum(
            claimed_ps(
                self.graph,
                owners,
                place=place,
                device=device,
                account=self.account,
                device_sets=self.device_sets,
            )
            for owners, place in claims
        )
        return whole / self.graph.sampled.count / PS_PER_MS

    def promise(
        self,
        gain: Gain,
        claimed_ms: float | None,
        effect_ms: float | None,
        most_ms: float | None,
    ) -> Saving | None:
        """Return a gain as a promise about the mean step; None where it cannot tell.

        Args:
            gain: What the replayed steps gain.
            claimed_ms: The time in these that the claim is about.
            effect_ms: That time in the mean of all steps; None takes the replayed
                steps for all.
            most_ms: What that time may be in the mean of other steps; None for the
                same.
        """
        if not gain.can_be_told or (claimed_ms is not None and claimed_ms <= 0):
            return None
        scale = 1.0
        most = gain.period_ps / PS_PER_MS
        if effect_ms is not None and claimed_ms is not None:
            scale = effect_ms / claimed_ms
            most = effect_ms if most_ms is None else most_ms
        low, high = _spread(gain, self.graph.sampled.bounds_ps)
        return Saving(
            low=min(low * scale, most),
            high=min(high * scale, most),
            basis="replay",
            identity_error_percent=self.identity.median_error_percent,
        )


class ReplaySignals(Frozen, frozen=True):
    """The replays of a profile.

    Attributes:
        hosts: Host → its replay, or why there is none.
    """

    hosts: Mapping[str, HostReplay | Unavailable]

    def reason(self, label: str) -> Unavailable | None:
        """Return why no gain on a device or host can be told; None where it can.

        Args:
            label: `host:device`, or the host.
        """
        found = self.hosts.get(self._host(label), NO_STEPS)
        return found if isinstance(found, Unavailable) else found.identity.why_not

    def saving(
        self,
        claims: Sequence[Claim],
        label: str,
        *,
        effect_ms: float | None = None,
        most_ms: float | None = None,
    ) -> Saving | None:
        """Return what a step gains if the time of some owners goes.

        Args:
            claims: Owners and the place of their time; several hold together.
            label: Device or host whose account is meant, as findings name it.
            effect_ms: Their time in a mean step. The replayed steps are a sample, which
                may hold more or less of it: what is gained of the time in the sample
                is gained of this. None takes the sample for the whole.
            most_ms: What their time may be in the mean of other steps; None for the
                same. Nothing more is gained.

        Returns:
            None where the replay cannot tell.
        """
        found = self._usable(label)
        if found is None or not claims:
            return None
        device = self._device(label)
        edits = [found.without(claim, device) for claim in claims]
        gain = (
            gain_of(found.graph, edits[0])
            if len(edits) == 1
            else joint_gain(found.graph, edits)
        )
        claimed = None if effect_ms is None else found.claimed_ms(claims, device)
        return found.promise(gain, claimed, effect_ms, most_ms)

    def saving_of_calls(
        self,
        spans: Spans,
        label: str,
        *,
        threads: Collection[int],
        effect_ms: float,
        most_ms: float,
    ) -> Saving | None:
        """Return what a step gains if some threads do nothing at some instants.

        Args:
            spans: The instants: where a function runs, with all that it calls.
            label: The host.
            threads: Rows of tracks of these threads.
            effect_ms: The instants' time in a mean step.
            most_ms: What it may be in the mean of other steps.

        Returns:
            None where the replay cannot tell.
        """
        found = self._usable(label)
        if found is None:
            return None
        graph = found.graph
        edit = threads_faster(graph, spans, factor=inf, tracks=threads)
        chosen = graph.sampled
        claimed = spans.clip(chosen.first_ps, chosen.last_ps).length_ps
        claimed_ms = claimed / chosen.count / PS_PER_MS
        return found.promise(gain_of(graph, edit), claimed_ms, effect_ms, most_ms)

    def next_bottleneck(self, claim: Claim, label: str) -> str | None:
        """Return the owner with most time on the critical path after a claim.

        Args:
            claim: Owners whose time goes, and where it lies.
            label: Device or host whose account is meant.

        Returns:
            None where the replay cannot tell.
        """
        found = self._usable(label)
        if found is None:
            return None
        return next_owner(
            found.graph,
            found.without(claim, self._device(label)),
            account=found.account,
            host_states=found.host_states,
            device_sets=found.device_sets,
        )

    def _usable(self, label: str) -> HostReplay | None:
        found = self.hosts.get(self._host(label))
        if found is None or isinstance(found, Unavailable):
            return None
        return found if found.identity.stands else None

    def _host(self, label: str) -> str:
        return label if label in self.hosts else label.rpartition(":")[0]

    def _device(self, label: str) -> int | None:
        return None if label in self.hosts else int(label.rpartition(":")[2])


def _spread(gain: Gain, bounds_ps: NDArray[np.int64]) -> tuple[float, float]:
    """Return the range of a gain in ms per step, as far as the windows support it.

    To the range of the replay comes that of the sample: the 95 % interval of the mean,
    by the resampling that verdicts rest on.
    """
    windows = np.diff(bounds_ps).tolist()
    low, high = gain.low_ps, gain.high_ps
    if len(windows) >= _FEW:
        ends = [
            (percent * gain.period_ps / 100, mean)
            for it in gain.by_window_ps
            for mean in [float(it.mean())]
            for percent in ratio_interval(it.tolist(), windows)
        ]
        # Relative to the mean of each way, for limits may have cut it.
        low = min([low, *(low * end / mean for end, mean in ends if mean > 0)])
        high = max([high, *(high * end / mean for end, mean in ends if mean > 0)])
    return max(low, 0.0) / PS_PER_MS, high / PS_PER_MS


@signal(step_graph, replay_check, account, host_classes, host_states, device_sets)
def replay_signals(profile: ProfileData, _: Thresholds) -> ReplaySignals:
    """Build the graph of every host and replay it without a change."""
    return ReplaySignals({host: _of_host(profile, host) for host in profile.hosts})


def _of_host(profile: ProfileData, host: str) -> HostReplay | Unavailable:
    graph = profile.derived(host, step_graph)
    if isinstance(graph, Unavailable):
        return graph
    check = profile.derived(host, replay_check)
    if isinstance(check, Unavailable):
        return check
    accounted = profile.derived(host, account)
    if isinstance(accounted, Unavailable):
        return accounted
    classes = profile.derived(host, host_classes)
    if isinstance(classes, Unavailable):
        return classes
    tracks = profile.table(host, "tracks")
    if isinstance(tracks, Unavailable):
        return tracks
    return HostReplay(
        graph,
        check,
        accounted,
        classes,
        profile.derived(host, host_states),
        profile.derived(host, device_sets),
        tracks,
    )
