"""Which ops a run has, and which a person means: one by its name, or all of a scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.host.op_events import host_op_events
from stepscope.errors import BadUsage
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.derive.profile_data import ProfileData

#: What parts the scopes of a name: paths of most frameworks, namespaces of others.
_SEPARATORS: Final = ("/", "::")
#: Pages that are narrow print a name without its middle; it may be pasted so.
_CUT: Final = "…"
_NAMED: Final = 5
#: Levels of a path that are offered, from its end.
_DEEPEST: Final = 100


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


class OpSelection(Frozen, frozen=True, eq=True):
    """The ops that were asked for.

    Attributes:
        op: Name of the one op; None where a scope was asked for.
        scope: The path that the names begin with, without a separator at its end;
            None where an op was asked for.
    """

    op: str | None
    scope: str | None

    def matches_names(self, column: str) -> pl.Expr:
        """Match the names in a column that are meant; False for null."""
        name = pl.col(column)
        if self.op is not None:
            return (name == self.op).fill_null(value=False)
        found = name == self.scope
        for separator in _SEPARATORS:
            found |= name.str.starts_with(f"{self.scope}{separator}")
        return found.fill_null(value=False)

    @property
    def words(self) -> str:
        """`op NAME` or `scope PREFIX`."""
        return f"scope {self.scope}" if self.op is None else f"op {self.op}"


def select_ops(
    op: str | None, scope: str | None, names: Iterable[str], *, what: str = "op"
) -> OpSelection | None:
    """Find what is meant among the names there are; None where nothing was asked for.

    A name with `…` in it means the one name that it can be short for.

    Args:
        what: What the names are names of, for the message.

    Raises:
        BadUsage: Both were asked for, or there is no such op or scope; the message
            names the nearest.
    """
    if op is not None and scope is not None:
        raise BadUsage("op and scope exclude each other: ask for one of them")
    if op is None and scope is None:
        return None
    known = pl.Series("name", sorted(set(names)), pl.String)
    if op is not None:
        return OpSelection(_matching_name(op, known, what), None)
    path = (scope or "").strip()
    for separator in _SEPARATORS:
        path = path.removesuffix(separator)
    selection = OpSelection(None, path)
    if not known.to_frame().filter(selection.matches_names("name")).height:
        scopes: set[str] = set()
        for separator in _SEPARATORS:
            # One round per level of the deepest names, over distinct names only.
            paths = known
            for _ in range(_DEEPEST):
                paths = paths.filter(paths.str.contains(separator, literal=True))
                paths = paths.str.replace(f"(?s)^(.*){separator}.*$", "${1}").unique()
                scopes.update(paths.to_list())
        there = pl.Series("name", sorted(scopes - {""}), pl.String)
        nearest = _nearest_names(path, there)
        raise BadUsage(f"no {what} has the scope {path!r}{_nearest_words(nearest)}")
    return selection


def _matching_name(op: str, known: pl.Series, what: str) -> str:
    if (known == op).any():
        return op
    if _CUT in op:
        first, _, last = op.partition(_CUT)
        long = known.str.len_chars() > len(first) + len(last)
        whole = known.filter(
            long & known.str.starts_with(first) & known.str.ends_with(last)
        )
        if len(whole) == 1:
            return str(whole[0])
        if len(whole):
            names = ", ".join(whole.head(_NAMED).to_list())
            rest = len(whole) - _NAMED
            more = f" and {rest} more" if rest > 0 else ""
            message = f"{op!r} is short for {len(whole)} names: {names}{more}"
            raise BadUsage(message)
    raise BadUsage(
        f"there is no {what} {op!r}{_nearest_words(_nearest_names(op, known))}"
    )


def _nearest_words(nearest: list[str]) -> str:
    if not nearest:
        return ", and none with a name like it; without a name the tool lists all"
    return f"; the nearest: {', '.join(nearest)}"


def _nearest_names(wanted: str, known: pl.Series) -> list[str]:
    """List names that hold the text in any case first; then those spelled alike."""
    from difflib import get_close_matches  # noqa: PLC0415 - for a wrong name alone

    lowered = known.str.to_lowercase()
    inside = known.filter(lowered.str.contains(wanted.lower(), literal=True))
    holding = sorted(inside.to_list() if wanted else [], key=len)
    by_lowered = dict(zip(lowered.to_list(), known.to_list(), strict=True))
    alike = get_close_matches(wanted.lower(), by_lowered, n=_NAMED)
    found = dict.fromkeys([*holding, *(by_lowered[name] for name in alike)])
    return list(found)[:_NAMED]
