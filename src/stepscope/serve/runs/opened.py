"""An open profile, as a whole or for some hosts, with the results computed so far."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from stepscope.advice.engine import DERIVATIONS
from stepscope.analysis.tools import find_tool, tool_needs
from stepscope.derive.frameworks import frameworks_used
from stepscope.report.envelope import describe_profile, recording_doubts
from stepscope.report.tables import tables
from stepscope.serve.errors import Refused
from stepscope.serve.runs.cache import Bounded
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.report.envelope import Doubt, Profile
    from stepscope.serve.runs.cache import Working

#: Events of a profile that may stay open next to another one.
LIGHT_EVENTS: Final = 200_000

#: Bytes of results kept with the profile, so that sorting a table computes nothing
#: again.
_RESULTS_BYTES: Final = 128 * 2**20
#: Option of tools that read all hosts to answer about some of them.
_HOSTS: Final = "hosts"
#: Bytes that a result is counted with at least, whatever its tables hold.
_LEAST_BYTES: Final = 2**16


class View:
    """A profile, limited to some of its hosts."""

    def __init__(self, profile: ProfileWithTools) -> None:
        self.profile = profile

    @cached_property
    def described(self) -> Profile:
        """Return run, hosts and devices of the profile."""
        return describe_profile(self.profile)

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        """Return the doubts about the recording."""
        return recording_doubts(self.profile)


class Opened:
    """One open profile; used by one computation at a time."""

    def __init__(self, profile: ProfileWithTools, working: Working) -> None:
        self.working = working
        #: Known from the first answer on that names them.
        self.frameworks: tuple[str, ...] | None = None
        self._all = profile
        self._views: Bounded[View] = Bounded(_RESULTS_BYTES)
        self._results: Bounded[msgspec.Struct | Unavailable] = Bounded(_RESULTS_BYTES)

    def view_of_hosts(self, hosts: tuple[str, ...]) -> View:
        """Return the profile limited to these hosts; to all where none is named.

        Raises:
            Refused: There is no such host.
        """
        for host in hosts:
            if host not in self._all.hosts:
                listed = ", ".join(self._all.hosts)
                raise Refused(
                    404, "unknown_host", f"there is no host {host!r}; known: {listed}"
                )
        # In the order of the profile, so that equal choices are equal questions.
        chosen = tuple(host for host in self._all.hosts if host in hosts or not hosts)
        found = self._views.get_value(chosen)
        if found is None:
            whole = chosen == self._all.hosts
            found = View(self._all if whole else self._all.select(chosen))
            self._views.put_value(chosen, found, cost_bytes=_LEAST_BYTES)
        return found

    def named_frameworks(self, hosts: tuple[str, ...]) -> tuple[str, ...]:
        """Return the frameworks of these hosts; of all hosts they are remembered."""
        profile = self.view_of_hosts(hosts).profile
        if profile.hosts != self._all.hosts:
            return profile.of_run(frameworks_used)
        if self.frameworks is None:
            self.frameworks = profile.of_run(frameworks_used)
        return self.frameworks

    def tool_result(
        self, tool: str, hosts: tuple[str, ...], options: Mapping[str, object]
    ) -> msgspec.Struct | Unavailable:
        """Return a tool's result; computed once as long as there is room to keep it."""
        profile = self.view_of_hosts(hosts).profile
        key = (tool, profile.hosts, repr(sorted(options.items())))
        found = self._results.get_value(key)
        if found is None:
            declared = find_tool(tool)
            self.working.stage(declared.title)
            if hosts and _HOSTS in declared.options.__struct_fields__:
                chosen = {**options, _HOSTS: profile.hosts}
                found = self._all.tool(tool, **chosen)
            else:
                found = profile.tool(tool, **options)
            cost_bytes = _LEAST_BYTES
            if not isinstance(found, Unavailable):
                frames = tables(found).values()
                cost_bytes += sum(int(frame.estimated_size()) for frame in frames)
            self._results.put_value(key, found, cost_bytes=cost_bytes)
        return found

    @property
    def is_small(self) -> bool:
        """Return whether requests are so fast that nothing is worth preparing."""
        return not self._all.is_worth_threads

    @property
    def is_light(self) -> bool:
        """Return whether there is memory for a second one like it."""
        return self._all.event_count <= LIGHT_EVENTS

    def prepare_tool(self, tool: str) -> None:
        """Compute what a tool and the findings, which are shown next to it, need.

        This may run while something else is being computed: a computation that needs
        one of these derivations waits for that derivation only.
        """
        self._all.prepare((*tool_needs(tool), *DERIVATIONS))
