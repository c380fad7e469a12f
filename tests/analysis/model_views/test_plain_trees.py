"""The options of a tree, against a plain reading of what each of them says."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.analysis import model_views
from stepscope.analysis.model_views import ModelViewsResult, Options

#: Path and type of the ops; the device works for the last ones.
OPS = (
    *("m/a/x:X", "m/a/y:Y", "m/a:Z", "m/b/x:X", "m/b/deep/er/x:X", "n:N", "n/x:X"),
    *("m/a/k:X", "m/c/k:K", "o/k:K"),
)
ON_DEVICE = 7
ALL = (".*",)


def recorded(seed: int) -> list[tuple[str, int]]:
    """The ops of a host and their µs."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    return [(chance.choice(OPS), chance.randint(1, 9)) for _ in range(25)]


def profile_lines(seed: int) -> list[blueprint.Line]:
    """One op after the other, alone on the host or alone on the device."""
    lines: list[blueprint.Line] = []
    for number, (op, dur) in enumerate(recorded(seed)):
        if OPS.index(op) < ON_DEVICE:
            lines.append(("main", op, 10 * number, dur))
        else:
            lines.append(("gpu:0/7(Compute)", "k", 10 * number, dur, {"tf_op": op}))
    return lines


class Node:
    """A scope with its own costs; times are in µs."""

    def __init__(self, name: str, parent: Node | None) -> None:
        self.name = name
        self.parent = parent
        self.children: list[Node] = []
        self.own = dict.fromkeys(("host", "device", "occurrence"), 0)
        self.types: set[str] = set()
        self.depth = 0

    def below(self) -> list[Node]:
        return [self, *(inner for child in self.children for inner in child.below())]

    def total(self, counted: set[str] | None = None) -> dict[str, int]:
        """Costs with descendants; of those of which the names count, if any are."""
        nodes = [
            node for node in self.below() if counted is None or node.name in counted
        ]
        return {name: sum(node.own[name] for node in nodes) for name in self.own}


def grown(seeds: tuple[int, ...], types: tuple[str, ...]) -> list[Node]:
    """All scopes of the ops of some hosts, parents first."""
    nodes: dict[str, Node] = {}
    for seed in seeds:
        for op, dur in recorded(seed):
            path, kind = op.split(":")
            if not matches(kind, types):
                continue
            parent = None
            parts = path.split("/")
            for length in range(1, len(parts) + 1):
                name = "/".join(parts[:length])
                if name not in nodes:
                    nodes[name] = Node(name, parent)
                    if parent is not None:
                        parent.children.append(nodes[name])
                parent = nodes[name]
            assert parent is not None
            side = "host" if OPS.index(op) < ON_DEVICE else "device"
            parent.own[side] += dur
            parent.own["occurrence"] += 1
            parent.types.add(kind)
    return list(nodes.values())


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def set_depths(nodes: list[Node], options: dict[str, Any]) -> None:
    """Count from where the tree begins; 0 is a node that is left out."""
    trimmed: set[str] = set()
    for node in nodes:
        above = node.parent
        if matches(node.name, options.get("trim_name_regexes", ())) or (
            above is not None and above.name in trimmed
        ):
            trimmed.add(node.name)
        elif above is not None and above.depth:
            node.depth = above.depth + 1
        elif matches(node.name, options.get("start_name_regexes", ALL)):
            node.depth = 1


def chosen(
    nodes: list[Node], options: dict[str, Any]
) -> tuple[set[str] | None, set[str]]:
    """The nodes that count for totals (None: all), and those that are shown."""
    fitting = {
        node.name
        for node in nodes
        if node.depth
        and matches(node.name, options.get("show_name_regexes", ALL))
        and not matches(node.name, options.get("hide_name_regexes", ()))
    }

    def enough(counted: set[str] | None) -> set[str]:
        reached = set()
        for node in nodes:
            cost = node.total(counted)
            cost["both"] = cost["host"] + cost["device"]
            limits = {
                "min_micros": "both",
                "min_cpu_micros": "host",
                "min_accelerator_micros": "device",
                "min_occurrence": "occurrence",
            }
            if node.name in fitting and all(
                cost[what] >= options.get(option, 0) for option, what in limits.items()
            ):
                reached.add(node.name)
        return reached

    counted = enough(None) if options.get("account_displayed_op_only") else None
    shown = {
        node.name
        for node in nodes
        if node.name in enough(counted) and node.depth <= options.get("max_depth", 99)
    }
    return counted, shown


def expected_rows(
    seeds: tuple[int, ...], options: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """The nodes as the docs say, columns `COLUMNS`."""
    nodes = grown(seeds, options.get("account_type_regexes", ALL))
    set_depths(nodes, options)
    counted, shown = chosen(nodes, options)
    everything = sum(node.own["host"] + node.own["device"] for node in nodes)
    rows: list[tuple[Any, ...]] = []
    orders = {
        "cpu_micros": lambda cost: cost["host"],
        "accelerator_micros": lambda cost: cost["device"],
        "occurrence": lambda cost: cost["occurrence"],
        "micros": lambda cost: cost["host"] + cost["device"],
    }
    order = orders.get(options.get("order_by", "micros"), lambda _: 0)

    def visible(some: list[Node]) -> list[Node]:
        """The nearest shown nodes, in order."""
        found = []
        for node in some:
            found += [node] if node.name in shown else visible(node.children)
        return sorted(found, key=lambda one: (-order(one.total(counted)), one.name))

    def add(node: Node, above: int | None) -> None:
        number, cost = len(rows), node.total(counted)
        spent = cost["host"] + cost["device"]
        rows.append(
            (
                *(number, above, node.depth, node.name),
                next(iter(node.types)) if len(node.types) == 1 else None,
                *(cost["occurrence"], spent, node.own["host"] + node.own["device"]),
                *(node.own["host"], node.own["device"], cost["host"], cost["device"]),
                pytest.approx(100 * spent / everything),
            )
        )
        for child in visible(node.children):
            add(child, number)

    for node in visible([node for node in nodes if node.depth == 1]):
        add(node, None)
    return rows


CHOICES: dict[str, list[Any]] = {
    "max_depth": [1, 2, 3],
    "min_micros": [1, 9, 20, 45],
    "min_cpu_micros": [1, 8, 16],
    "min_accelerator_micros": [1, 8, 16],
    "min_occurrence": [1, 2, 5],
    "order_by": ["name", "occurrence", "cpu_micros", "accelerator_micros", "depth"],
    "account_type_regexes": [("X", "K"), ("[XY]",)],
    "start_name_regexes": [("m/.*",), (".*b.*",), ("m", "o")],
    "trim_name_regexes": [("m/a",), (".*/x",), ("n", "m/b/deep")],
    "show_name_regexes": [(".*/.*",), (".*/x", "m")],
    "hide_name_regexes": [("m",), ("m/.", "o"), (".*/deep", ".*/x")],
    "account_displayed_op_only": [True],
}
COLUMNS = (
    *("id", "parent", "depth", "name", "type", "occurrences", "total_us", "self_us"),
    *("host_us", "device_us", "total_host_us", "total_device_us", "percent"),
)


def drawn(seed: int) -> dict[str, Any]:
    """Some options, each with one of its values."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    names = chance.sample(sorted(CHOICES), chance.randint(0, 4))
    return {name: chance.choice(CHOICES[name]) for name in names}


SINGLE = [{name: value} for name in CHOICES for value in CHOICES[name][:2]]
SEEDS = (5, 6)
PROFILE = blueprint.profile(
    *(blueprint.trace(profile_lines(seed), host=f"h{seed}") for seed in SEEDS)
)


@pytest.mark.parametrize("options", [*SINGLE, *map(drawn, range(8))], ids=str)
def test_the_scopes_are_those_that_the_options_leave(options: dict[str, Any]) -> None:
    result = model_views.analyse(PROFILE, Options(**options))
    assert isinstance(result, ModelViewsResult)
    assert result.scope.select(COLUMNS).rows() == expected_rows(SEEDS, options)


def test_types_unite_the_ops_of_all_scopes() -> None:
    result = model_views.analyse(PROFILE, Options())
    assert isinstance(result, ModelViewsResult)
    by_type: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for seed in SEEDS:
        for op, dur in recorded(seed):
            sums = by_type[op.split(":")[1]]
            sums[0] += 1
            sums[1 if OPS.index(op) < ON_DEVICE else 2] += dur
    columns = ("name", "type", "occurrences", "host_us", "device_us")
    assert result.op.select(columns).rows() == sorted(
        [(name, name, *sums) for name, sums in by_type.items()],
        key=lambda row: (-row[3] - row[4], row[0]),
    )
    assert result.total_us == sum(dur for seed in SEEDS for _, dur in recorded(seed))
    assert result.flops_known_percent is not None
