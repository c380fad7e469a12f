"""An open profile, whole or limited to some hosts, with its computed results."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.advice.engine import DERIVATIONS
from stepscope.analysis.tools import find_tool, tool_needs
from stepscope.derive.frameworks import frameworks_used
from stepscope.reporting.envelope import describe_profile, recording_doubts
from stepscope.reporting.tables import tables
from stepscope.serve.errors import Refused
from stepscope.serve.runs.cache import Bounded
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.reporting.envelope import Doubt, Profile
    from stepscope.serve.runs.cache import Working

#: Maximum number of events of a profile that stays open next to another profile.
LIGHT_EVENTS: Final = 200_000

#: Maximum size of the results that are kept for sorting tables, in bytes per profile.
_RESULTS_BYTES: Final = 128 * 2**20
#: Option of tools that read all hosts even if the answer is about some of them.
_HOSTS: Final = "hosts"
#: Size counted for each kept result in addition to its tables, in bytes.
_MIN_RESULT_BYTES: Final = 2**16


class RunSummary(NamedTuple):
    """What the list of runs says about a run that was read.

    Attributes:
        frameworks: Frameworks of the program; None until an answer needed them.
        verdict: The first sentence of the findings; None until they were computed.
        step_ms: Mean step time, in milliseconds; None if it is unknown.
    """

    frameworks: tuple[str, ...] | None = None
    verdict: str | None = None
    step_ms: float | None = None


class View:
    """A profile limited to some of its hosts."""

    def __init__(self, profile: ProfileWithTools) -> None:
        self.profile = profile

    @cached_property
    def described(self) -> Profile:
        """Return the run, hosts and devices of the profile."""
        return describe_profile(self.profile)

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        """Return the doubts about the recording."""
        return recording_doubts(self.profile)


class Opened:
    """One open profile; only one computation at a time uses the profile."""

    def __init__(self, profile: ProfileWithTools, working: Working) -> None:
        self.working = working
        #: About all hosts, as far as answers needed it.
        self.summary = RunSummary()
        self._all = profile
        self._views: Bounded[View] = Bounded(_RESULTS_BYTES)
        self._results: Bounded[msgspec.Struct | Unavailable] = Bounded(_RESULTS_BYTES)

    def view_of_hosts(self, hosts: tuple[str, ...]) -> View:
        """Return the profile limited to these hosts; all hosts if none are named.

        Raises:
            Refused: The profile has no host of this name.
        """
        for host in hosts:
            if host not in self._all.hosts:
                listed = ", ".join(self._all.hosts)
                raise Refused(
                    404, "unknown_host", f"there is no host {host!r}; known: {listed}"
                )
        # Hosts are in the order of the profile, so that equal choices give equal keys.
        chosen = tuple(host for host in self._all.hosts if host in hosts or not hosts)
        view = self._views.get_value(chosen)
        if view is None:
            is_all = chosen == self._all.hosts
            view = View(self._all if is_all else self._all.select(chosen))
            self._views.put_value(chosen, view, cost_bytes=_MIN_RESULT_BYTES)
        return view

    def named_frameworks(self, hosts: tuple[str, ...]) -> tuple[str, ...]:
        """Return the frameworks of these hosts; the result for all hosts is kept."""
        profile = self.view_of_hosts(hosts).profile
        if profile.hosts != self._all.hosts:
            return profile.of_run(frameworks_used)
        frameworks = self.summary.frameworks
        if frameworks is None:
            frameworks = profile.of_run(frameworks_used)
            self.summary = self.summary._replace(frameworks=frameworks)
        return frameworks

    def keep_verdict(
        self, hosts: tuple[str, ...], verdict: str, step_ms: float | None
    ) -> None:
        """Keep the first sentence and the mean step if they are about all hosts."""
        if self.view_of_hosts(hosts).profile.hosts == self._all.hosts:
            self.summary = self.summary._replace(verdict=verdict, step_ms=step_ms)

    def tool_result(
        self, tool: str, hosts: tuple[str, ...], options: Mapping[str, object]
    ) -> msgspec.Struct | Unavailable:
        """Return the result of a tool; results are kept up to a maximum size."""
        profile = self.view_of_hosts(hosts).profile
        key = (tool, profile.hosts, repr(sorted(options.items())))
        result = self._results.get_value(key)
        if result is None:
            declared = find_tool(tool)
            self.working.stage(declared.title)
            if hosts and _HOSTS in declared.options.__struct_fields__:
                chosen = {**options, _HOSTS: profile.hosts}
                result = self._all.tool(tool, **chosen)
            else:
                result = profile.tool(tool, **options)
            cost_bytes = _MIN_RESULT_BYTES
            if not isinstance(result, Unavailable):
                frames = tables(result).values()
                cost_bytes += sum(int(frame.estimated_size()) for frame in frames)
            self._results.put_value(key, result, cost_bytes=cost_bytes)
        return result

    @property
    def is_small(self) -> bool:
        """Return whether answers are so fast that precomputing them is useless."""
        return not self._all.is_worth_threads

    @property
    def is_light(self) -> bool:
        """Return whether a second profile of this size can stay open."""
        return self._all.event_count <= LIGHT_EVENTS

    def prepare_tool(self, tool: str) -> None:
        """Compute the derivations of a tool, and of the findings on its page.

        Preparing may run in parallel with another computation, which waits only for
        derivations that it needs itself.
        """
        self._all.prepare((*tool_needs(tool), *DERIVATIONS))
