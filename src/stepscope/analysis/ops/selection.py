"""The op names of a run, and selection of one op or of all ops in a scope."""

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

#: Separators of scopes in a name: `/` in most frameworks, `::` for C++ namespaces.
_SEPARATORS: Final = ("/", "::")
#: Replaces the middle of a name on narrow pages; users may paste such a short name.
_ELLIPSIS: Final = "…"
_MAX_NAMES: Final = 5
#: Maximum number of scope levels considered, counted from the end of a name.
_DEEPEST: Final = 100


def op_names(profile: ProfileData) -> frozenset[str]:
    """Return the names of the ops in the op tables of all hosts."""
    names: set[str] = set()
    for host in profile.hosts:
        for table in (
            profile.derived(host, host_op_events),
            profile.derived(host, activity_ops),
        ):
            if not isinstance(table, Unavailable):
                names.update(table.ops["name"].drop_nulls().to_list())
    return frozenset(names)


class OpSelection(Frozen, frozen=True, eq=True):
    """The selected ops.

    Attributes:
        op: Name of the selected op; None if a scope is selected.
        scope: Path that the names begin with, without a final separator; or None.
    """

    op: str | None
    scope: str | None

    def matches_names(self, column: str) -> pl.Expr:
        """Return whether each name in a column is selected; False for null."""
        name = pl.col(column)
        if self.op is not None:
            return (name == self.op).fill_null(value=False)
        matches = name == self.scope
        for separator in _SEPARATORS:
            matches |= name.str.starts_with(f"{self.scope}{separator}")
        return matches.fill_null(value=False)

    @property
    def words(self) -> str:
        """The selection as text: `op NAME` or `scope PREFIX`."""
        return f"scope {self.scope}" if self.op is None else f"op {self.op}"


def select_ops(
    op: str | None, scope: str | None, names: Iterable[str], *, what: str = "op"
) -> OpSelection | None:
    """Select ops among the known names; None if neither op nor scope is given.

    A name with `…` selects the one known name of which it is a short form.

    Args:
        what: Kind of the names (ops, …), for the error message.

    Raises:
        BadUsage: Both op and scope are given, or no name matches.
    """
    if op is not None and scope is not None:
        raise BadUsage("op and scope exclude each other: give only one of them")
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
            # One pass per level of the deepest name, over distinct names only.
            paths = known
            for _ in range(_DEEPEST):
                paths = paths.filter(paths.str.contains(separator, literal=True))
                paths = paths.str.replace(f"(?s)^(.*){separator}.*$", "${1}").unique()
                scopes.update(paths.to_list())
        scope_names = pl.Series("name", sorted(scopes - {""}), pl.String)
        nearest = _nearest_names(path, scope_names)
        raise BadUsage(f"no {what} has the scope {path!r}{nearest}")
    return selection


def _matching_name(op: str, known: pl.Series, what: str) -> str:
    if (known == op).any():
        return op
    if _ELLIPSIS in op:
        first, _, last = op.partition(_ELLIPSIS)
        long = known.str.len_chars() > len(first) + len(last)
        matches = known.filter(
            long & known.str.starts_with(first) & known.str.ends_with(last)
        )
        if len(matches) == 1:
            return str(matches[0])
        if len(matches):
            names = ", ".join(matches.head(_MAX_NAMES).to_list())
            further = len(matches) - _MAX_NAMES
            more = f" and {further} more" if further > 0 else ""
            message = f"{op!r} can be short for {len(matches)} names: {names}{more}"
            raise BadUsage(message)
    raise BadUsage(f"there is no {what} {op!r}{_nearest_names(op, known)}")


def _nearest_names(wanted: str, known: pl.Series) -> str:
    """Name those that contain the text (ignoring case), then similar ones."""
    from difflib import get_close_matches  # noqa: PLC0415 - for a wrong name alone

    lowered = known.str.to_lowercase()
    inside = known.filter(lowered.str.contains(wanted.lower(), literal=True))
    holding = sorted(inside.to_list() if wanted else [], key=len)
    by_lowered = dict(zip(lowered.to_list(), known.to_list(), strict=True))
    alike = get_close_matches(wanted.lower(), by_lowered, n=_MAX_NAMES)
    nearest = dict.fromkeys([*holding, *(by_lowered[name] for name in alike)])
    if not nearest:
        return "; no known name is similar. Without a name, the tool lists all"
    return f"; the nearest: {', '.join([*nearest][:_MAX_NAMES])}"
