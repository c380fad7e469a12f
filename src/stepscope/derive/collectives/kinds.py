"""What kind of exchange a collective is, and how much of it a link carries."""

from __future__ import annotations

from typing import Final

from stepscope.patterns import Pattern

#: What a name in lower case calls the exchange; the first that fits.
_KINDS: Final = (
    ("reduce-scatter", Pattern(r"reduce_?-?scatter")),
    (
        "all-reduce",
        Pattern(r"all_?-?reduce|cross_device_reduce|collectivereduce"),
    ),
    ("all-gather", Pattern(r"all_?-?gather|collectivegather")),
    (
        "all-to-all",
        Pattern(r"all_?-?(?:to|2)_?-?all|deep_ep\w*(?:::\w+)*::(?:disp|comb)"),
    ),
    ("broadcast", Pattern(r"broad_?cast|bcast")),
    ("send-receive", Pattern(r"send|recv|permute")),
    ("gather", Pattern(r"gather")),
    ("scatter", Pattern(r"scatter")),
    ("reduce", Pattern(r"reduce")),
    ("barrier", Pattern(r"barrier")),
)
#: Every kind; the last is that of an exchange that nothing names.
KINDS: Final = (*(kind for kind, _ in _KINDS), "other")

#: Kinds whose names mean nothing else, whoever writes them.
_SURE: Final = frozenset({"all-reduce", "reduce-scatter", "all-gather", "all-to-all"})


def exchange_kind(text: str) -> str | None:
    """Return the kind of exchange in the name of a kernel, an op, a range or a call.

    None where the name holds no kind.
    """
    lowered = text.lower()
    return next((kind for kind, found in _KINDS if found.search(lowered)), None)


def is_sure_kind(kind: str) -> bool:
    """Return whether ops that do not communicate have no such name.

    Beside them are ops that gather, scatter or reduce within one device.
    """
    return kind in _SURE


def bus_share(kind: str, members: int) -> float:
    """Return the part of the bytes of a collective that a member's link carries.

    With it, times of different kinds and group sizes compare with the rate of a link:
    an all-reduce of n members sends (n - 1) / n of the bytes twice.

    Definition: docs/definitions/device-work.md#collectives.
    """
    if kind == "all-reduce":
        return 2.0 * (members - 1) / members
    if kind in ("reduce-scatter", "all-gather", "all-to-all", "gather", "scatter"):
        return (members - 1) / members
    return 1.0
