"""Names of one kernel in several tools: they differ in spaces, types and parameters.

`void at::native::reduce_kernel<512, 1, float>(Op)` in one is
`reduce_kernel<(int)512, (int)1, float>` in another, and `reduce_kernel` in a third.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from stepscope.patterns import UNNAMED_NAMESPACE, Pattern

#: Types of template arguments that some tools write before the number.
_CAST: Final = Pattern(r"(?<=[<,( ])\([A-Za-z_][\w: ]*\)(?=-?\w)")
#: Namespaces, of which some tools write all, others the last.
_NAMESPACE: Final = Pattern(r"(?:\b\w+::)+(?=[\w~{<])")
_TRUTH: Final = Pattern(r"\b(?:true|false)\b")
_AS_NUMBER: Final = {"true": "1", "false": "0"}
#: Functions without a name: `{lambda(int)#1}` and `[lambda(int) (instance 1)]`.
_BRACED: Final = Pattern(r"\{(lambda\([^{}\[\]]*?\))#(\d+)\}")
_BRACKETED: Final = Pattern(r"\[(lambda\([^{}\[\]]*?\)) ?\(instance (\d+)\)\]")
_CONST: Final = Pattern(r"\bconst\b")
_SUFFIX: Final = Pattern(r"\b(\d+)(?:ull|ul|u|ll|l)\b", re.IGNORECASE)
_IDENTIFIER: Final = Pattern(r"[A-Za-z_$][\w$.]*\Z")


class NameForms(NamedTuple):
    """One name, from all of it to its last word.

    Attributes:
        whole: The name with single spaces.
        signature: The function with its template arguments; no namespaces, no result
            and no parameters.
        base: The function's own name.
    """

    whole: str
    signature: str
    base: str


@cache
def name_forms(name: str) -> NameForms:
    """Return the forms of a name in which it is compared."""
    whole = " ".join(name.split())
    clean = UNNAMED_NAMESPACE.sub("", whole)
    for lambda_ in (_BRACED, _BRACKETED):
        clean = lambda_.sub(r"\1#\2", clean)
    clean = _SUFFIX.sub(r"\1", _CAST.sub("", _CONST.sub("", clean)))
    head = _without_parameters(clean)
    kept, depth = [], 0
    for letter in head:
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth = max(depth - 1, 0)
        elif depth == 0:
            kept.append(letter)
    plain = "".join(kept).rstrip()
    found = _IDENTIFIER.search(plain.rpartition("::")[2].rpartition(" ")[2])
    signature = _NAMESPACE.sub("", _after_result(head).replace(" ", ""))
    signature = _TRUTH.sub(lambda it: _AS_NUMBER[it[0]], signature)
    return NameForms(whole, signature, found[0] if found else signature)


def _without_parameters(name: str) -> str:
    depth = 0
    for at, letter in enumerate(name):
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth = max(depth - 1, 0)
        elif letter == "(" and depth == 0 and at:
            return name[:at].rstrip()
    return name


def _after_result(name: str) -> str:
    depth = 0
    begin = 0
    for at, letter in enumerate(name):
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth = max(depth - 1, 0)
        elif letter == " " and depth == 0:
            begin = at + 1
    return name[begin:]
