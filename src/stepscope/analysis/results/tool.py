"""The interface of a tool, counts of the rows read, and definitions of fields."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import msgspec
    import polars as pl

    from stepscope.derive.profile_data import ProfileData

_Value = TypeVar("_Value")
_Analyse: TypeAlias = "Callable[[ProfileData, Any], msgspec.Struct | Unavailable]"

#: Default of `Tool.compat`, for a tool that cannot follow another producer's rules.
_NOBODY: Final[Mapping[str, str]] = MappingProxyType({})


class Tool(Frozen, frozen=True, eq=True):
    """One tool of the program.

    The package with the tool's name contains the tool. A tool is imported at first use,
    because a report uses only half of the tools.

    Attributes:
        name: Public name of the tool and name of its package.
        aliases: Short names accepted in addition to `name`.
        title: Name of the tool in the guides.
        compat: Producer of profiles → package with a function of the tool's name that
            returns the numbers by the producer's rules.
    """

    name: str
    aliases: tuple[str, ...]
    title: str
    compat: Mapping[str, str] = _NOBODY

    @property
    def options(self) -> type[msgspec.Struct]:
        """The Struct of the tool's options; every field has a default."""
        options: type[msgspec.Struct] = _package_attribute(self.name, "Options")
        return options

    @property
    def analyse(self) -> _Analyse:
        """Function from `(profile, options)` to a frozen result or `Unavailable`."""
        analyse: _Analyse = _package_attribute(self.name, "analyse")
        return analyse

    @property
    def needs(self) -> tuple[Callable[..., object], ...]:
        """Derived data of each host that the tool reads with its default options.

        The derivations are computed in parallel before the tool starts.
        """
        needs: tuple[Callable[..., object], ...] = _package_attribute(
            self.name, "NEEDS"
        )
        return needs

    def analyse_as(self, producer: str) -> _Analyse:
        """Return the `analyse` that follows the rules of a producer in `compat`."""
        analyse: _Analyse = _package_attribute(self.compat[producer], self.name)
        return analyse


def _package_attribute(package: str, name: str) -> Any:
    return getattr(import_module(f"stepscope.analysis.{package}"), name)


def derived_by_host(
    profile: ProfileData,
    wanted: Callable[..., _Value | Unavailable],
    hosts: Iterable[str] | None = None,
) -> tuple[dict[str, _Value], dict[str, Unavailable]]:
    """Return a derivation's value by host, and the reason for each missing value.

    Args:
        hosts: Hosts to ask; None means all hosts.
    """
    known: dict[str, _Value] = {}
    absent: dict[str, Unavailable] = {}
    for host in profile.hosts if hosts is None else hosts:
        value = profile.derived(host, wanted)
        if isinstance(value, Unavailable):
            absent[host] = value
        else:
            known[host] = value
    return known, absent


def host_tables(profile: ProfileData, name: str) -> list[pl.DataFrame]:
    """Return a table of each host that has it."""
    tables = [profile.table(host, name) for host in profile.hosts]
    return [table for table in tables if not isinstance(table, Unavailable)]


def start_unix_ns(profile: ProfileData, host: str) -> int | None:
    """Return the absolute time of a host's time 0; None if not recorded."""
    environment = profile.table(host, "environment")
    if isinstance(environment, Unavailable):
        return None
    start: int | None = environment["start_unix_ns"][0]
    return start


def rows_read(
    profile: ProfileData,
    host: str,
    tables: Iterable[str] = ("tracks", "events", "device_activity", "launches"),
) -> dict[str, int | None]:
    """Return the number of rows of each given table; null for an absent table."""
    counts: dict[str, int | None] = {}
    for name in tables:
        table = profile.table(host, name)
        counts[name] = None if isinstance(table, Unavailable) else table.height
    return counts


def field_sentences(struct: type) -> dict[str, str]:
    """Return names and texts of the `Attributes:` of a class.

    Fields without a text have the text of the class `DEFINED_BY`, if there is one.
    """
    _, _, section = inspect.cleandoc(struct.__doc__ or "").partition("Attributes:\n")
    defined_by = getattr(struct, "DEFINED_BY", None)
    about = {} if defined_by is None else field_sentences(defined_by)
    names: list[str] = []
    for line in section.splitlines():
        head = re.match(r"    ([\w, ]+): (.*)", line)
        if head:
            names = [name.strip() for name in head[1].split(",")]
            about |= dict.fromkeys(names, head[2])
        elif line.startswith("        "):
            about |= {name: f"{about[name]} {line.strip()}" for name in names}
        elif line.strip():
            break
    return about
