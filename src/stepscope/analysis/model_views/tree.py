"""Charges hung into a tree: what each node cost itself and with all beneath it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.analysis.results.patterns import whole
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from stepscope.derive.model.view_names import View
    from stepscope.derive.model.work import Hung

#: Columns of `Tree.own` and `Tree.total`. A `has_` counts the charges for which
#: the metric after it is known: where it is 0, the metric is unknown.
METRICS: Final = (
    *("occurrences", "host_ps", "device_ps", "flops", "has_flops", "known_ps"),
    *("allocated_bytes", "has_allocated_bytes", "parameters", "has_parameters"),
)
#: What no source line was recorded for.
NO_SOURCE: Final = "(no source line)"
#: What has no op type.
NO_TYPE: Final = "(no type)"
#: Levels of a path; what is deeper stays one name.
_DEEPEST: Final = 100
_COLUMN: Final = {name: place for place, name in enumerate(METRICS)}
_VARIABLES: Final = (_COLUMN["parameters"], _COLUMN["has_parameters"])


class Tree(Frozen, frozen=True):
    """Nodes, parents before their children.

    Attributes:
        parent: By node, -1 for a root.
        name: By node: the whole path of a scope; an op, a type or a line otherwise.
        label: By node: its own part of the name.
        type: By node: the type of its op, None for a scope and where there are several.
        own: int64 (nodes, METRICS); without what is beneath.
        total: int64 (nodes, METRICS); with it.
        by_clock: Whether the host's time is that between two readings of a clock, to
            which the time on devices is not added.
    """

    parent: list[int]
    name: list[str]
    label: list[str]
    type: list[str | None]
    own: NDArray[np.int64]
    total: NDArray[np.int64]
    by_clock: bool = False

    def value(self, metric: str, *, total: bool) -> NDArray[np.int64]:
        """Return one metric of all nodes."""
        found: NDArray[np.int64] = (self.total if total else self.own)[
            :, _COLUMN[metric]
        ]
        return found

    def spent_ps(self, *, total: bool) -> NDArray[np.int64]:
        """Return time of all nodes, on hosts and devices."""
        if self.by_clock:
            return self.value("host_ps", total=total)
        return self.value("host_ps", total=total) + self.value("device_ps", total=total)


class Nodes:
    """Nodes by parent and label, as they come."""

    def __init__(self, *, paths: bool) -> None:
        self.parent: list[int] = []
        self.label: list[str] = []
        self.name: list[str] = []
        self.types: list[set[str]] = []
        self._number: dict[tuple[int, str], int] = {}
        self._paths = paths

    def child(self, parent: int, label: str) -> int:
        """Return the node with a label under a parent (-1: none), made if it is new."""
        number = self._number.setdefault((parent, label), len(self.parent))
        if number == len(self.parent):
            self.parent.append(parent)
            self.label.append(label)
            inside = self._paths and parent >= 0
            self.name.append(f"{self.name[parent]}/{label}" if inside else label)
            self.types.append(set())
        return number


def grown(hosts: Iterable[Hung], view: View, account_types: Sequence[str]) -> Tree:
    """Hang the charges of all hosts into one tree.

    Variables of the model are on every host that trains it, so a node has as many
    as the host that shows most of them; everything else adds up.

    Args:
        hosts: The charges of one view, host by host.
    """
    nodes = Nodes(paths=view == "scope")
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for hung in hosts:
        place = _Placing(nodes, hung, view)
        rows, numbers = [], []
        counted = whole(hung.charges["type"].fill_null(""), account_types)
        for row in hung.charges.filter(counted).iter_rows(named=True):
            type_ = row["type"] or ""
            number = place.node(row)
            if type_:
                nodes.types[number].add(type_)
            numbers.append(number)
            rows.append(_metrics(row))
        matrix = np.array(rows, np.int64).reshape(len(rows), len(METRICS))
        parts.append((np.array(numbers, np.int64), matrix))
    own = np.zeros((len(nodes.parent), len(METRICS)), np.int64)
    for numbers_of, matrix in parts:
        mine = np.zeros_like(own)
        np.add.at(mine, numbers_of, matrix)
        most = np.maximum(own[:, _VARIABLES], mine[:, _VARIABLES])
        own += mine
        own[:, _VARIABLES] = most
    types = [next(iter(one)) if len(one) == 1 else None for one in nodes.types]
    return Tree(
        nodes.parent, nodes.name, nodes.label, types, own, summed(nodes.parent, own)
    )


def summed(parent: Sequence[int], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each node with all beneath it; parents come before their children."""
    total = own.copy()
    for node in range(len(parent) - 1, -1, -1):
        if parent[node] >= 0:
            total[parent[node]] += total[node]
    return total


class _Placing:
    """Finds the node of a charge; places become nodes when they are first needed."""

    def __init__(self, nodes: Nodes, hung: Hung, view: View) -> None:
        self._nodes = nodes
        self._view = view
        self._texts = hung.texts
        none = np.empty(0, np.int32)
        places = hung.places
        self._parent = none if places is None else places.parent
        self._key = none if places is None else places.key
        self._known: dict[int, int] = {-1: -1}

    def node(self, row: dict[str, object]) -> int:
        name, place = str(row["name"]), int(str(row["place"]))
        if self._view == "op":
            return self._nodes.child(-1, str(row["type"] or NO_TYPE))
        if self._view == "code":
            if row["source"] is not None:
                return self._nodes.child(-1, str(row["source"]))
            return self._at(place) if place >= 0 else self._nodes.child(-1, NO_SOURCE)
        if self._view == "graph":
            return self._at(place) if place >= 0 else self._nodes.child(-1, name)
        found = self._at(place)
        segments = [one for one in name.split("/") if one] or [name]
        if len(segments) > _DEEPEST:
            # A node repeats its whole path.
            segments = [*segments[: _DEEPEST - 1], "/".join(segments[_DEEPEST - 1 :])]
        for segment in segments:
            found = self._nodes.child(found, segment)
        return found

    def _at(self, place: int) -> int:
        chain = []
        while place not in self._known:
            chain.append(place)
            place = int(self._parent[place])
        found = self._known[place]
        for one in reversed(chain):
            found = self._nodes.child(found, self._texts[int(self._key[one])])
            self._known[one] = found
        return found


def _metrics(row: dict[str, object]) -> list[int]:
    """Return the values of `METRICS` of one charge."""

    def number(name: str) -> int:
        value = row[name]
        return value if isinstance(value, int) else 0

    spent = number("host_ps") + number("device_ps")
    runs = number("occurrences")
    # A charge that ran nowhere else takes its time from what is known of it.
    share = number("known") / runs if runs else float(row["flops"] is not None)
    return [
        runs,
        number("host_ps"),
        number("device_ps"),
        number("flops"),
        int(row["flops"] is not None),
        round(spent * share),
        number("allocated_bytes"),
        int(row["allocated_bytes"] is not None),
        number("parameters"),
        int(row["parameters"] is not None),
    ]
