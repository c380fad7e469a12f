"""Small changes of a module that a test should notice, and marks where it has run.

A module is a list of places, always in the same order: an expression or a statement,
each with what may stand there instead. Texts, docstrings, annotations, assertions,
decorators, enumerations, what is raised, and the exported names are left alone: what
they say is not what a module computes, or a type checker watches it.
"""

import ast
import copy
from collections.abc import Iterator
from typing import Final, NamedTuple

#: The set of blocks that ran, as instrumented modules see it: a built-in name.
HITS: Final = "_blocks_that_ran"
#: Of statements outside functions, which run when the module is imported.
MODULE_BLOCK: Final = 0

_BOUNDARIES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_OPPOSITES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
}
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLS: Final = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "any_horizontal": "all_horizontal",
    "all_horizontal": "any_horizontal",
    "min_horizontal": "max_horizontal",
    "max_horizontal": "min_horizontal",
    "first": "last",
    "last": "first",
}
#: Keywords that check, or order what is as good in another order.
_CHECKS: Final = frozenset({"strict", "validate", "maintain_order", "rechunk"})
_LEFT_ALONE: Final = (ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom, ast.Raise)
_DROPPED: Final = (ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Delete)


class Place(NamedTuple):
    """One expression or statement, and what may stand there instead.

    Attributes:
        line: Where it is.
        block: The line at which the innermost block begins that it is in.
        parent: The node that holds it.
        field: Under which name.
        position: At which position, where the field is a list.
        replacements: Operator → what stands there instead.
    """

    line: int
    block: int
    parent: ast.AST
    field: str
    position: int | None
    replacements: dict[str, ast.AST]

    def replace(self, operator: str) -> str:
        """Change the tree; say how."""
        holder = getattr(self.parent, self.field)
        old = holder if self.position is None else holder[self.position]
        new = ast.copy_location(self.replacements[operator], old)
        if self.position is None:
            setattr(self.parent, self.field, new)
        else:
            holder[self.position] = new
        ast.fix_missing_locations(self.parent)
        return f"{ast.unparse(old)}  →  {ast.unparse(new)}"


def find_places(module: ast.Module) -> list[Place]:
    """Every place of a module that can be changed."""
    return list(_places_below(module, MODULE_BLOCK))


def insert_probes(module: ast.Module) -> None:
    """Let each block that runs add its line to the hits of the module's name."""
    blocks = {id(block): block for block in _blocks_of_functions(module)}
    for block in blocks.values():
        first = block[0]
        probe = ast.parse(f"{HITS}.add((__name__, {first.lineno}))").body[0]
        for node in ast.walk(probe):
            ast.copy_location(node, first)
        block.insert(1 if _is_docstring(first) and len(block) > 1 else 0, probe)


def _is_docstring(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case _:
            return False


def _blocks_of_functions(module: ast.Module) -> Iterator[list[ast.stmt]]:
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                yield from _blocks_of(node).values()


def _blocks_of(node: ast.AST) -> dict[str, list[ast.stmt]]:
    """The lists of statements of which some run and others do not."""
    if isinstance(node, ast.ClassDef | ast.Module):
        return {}
    return {
        name: value
        for name, value in ast.iter_fields(node)
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt)
    }


def _places_below(parent: ast.AST, block: int) -> Iterator[Place]:
    blocks = _blocks_of(parent)
    for field, value in ast.iter_fields(parent):
        if _is_left_alone(parent, field):
            continue
        inner = blocks[field][0].lineno if field in blocks else block
        nodes = value if isinstance(value, list) else [value]
        for index, node in enumerate(nodes):
            if not isinstance(node, ast.AST):
                continue
            if _is_declaration(node) or (inner == MODULE_BLOCK and _is_union(node)):
                continue
            if instead := _replacements(node, parent, field):
                position = index if isinstance(value, list) else None
                line = getattr(node, "lineno", block)
                yield Place(line, inner, parent, field, position, instead)
            if not isinstance(node, _LEFT_ALONE):
                yield from _places_below(node, inner)


def _is_left_alone(parent: ast.AST, field: str) -> bool:
    if field in ("annotation", "returns", "decorator_list", "type_params"):
        return True
    if isinstance(parent, ast.ClassDef):
        return field != "body"
    return isinstance(parent, ast.keyword) and parent.arg in _CHECKS


def _is_declaration(node: ast.AST) -> bool:
    """Whether this is the list of exported names, for a type checker, or numbering."""
    match node:
        case ast.ClassDef(bases=[ast.Name(id=base), *_]):
            return base.endswith(("Enum", "Flag"))
        case ast.ClassDef(bases=[ast.Attribute(attr=base), *_]):
            return base.endswith(("Enum", "Flag"))
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case _:
            return False


def _is_union(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)


def _replacements(node: ast.AST, parent: ast.AST, field: str) -> dict[str, ast.AST]:
    """Operator → what may stand instead of a node."""
    instead = _other_operators(node) | _other_values(node)
    if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub):
        # -1 says "none" in columns of numbers, and so would any other negative number.
        instead.pop("constant + 1", None)
    called = isinstance(parent, ast.Call) and field == "func"
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) if called and name in _CALLS:
            instead["call swapped"] = _renamed(node, _CALLS[name])
        case ast.Compare() | ast.UnaryOp():
            pass  # has its own opposite
        case ast.expr() if _is_condition(parent, field):
            instead["condition negated"] = ast.UnaryOp(ast.Not(), copy.copy(node))
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()):
            instead["statement dropped"] = ast.Pass()
        case _ if isinstance(node, _DROPPED):
            instead["statement dropped"] = ast.Pass()
    return instead


def _other_operators(node: ast.AST) -> dict[str, ast.AST]:
    changed = copy.copy(node)
    match changed:
        case ast.Compare(ops=[op]):
            instead: dict[str, ast.AST] = {}
            if type(op) in _BOUNDARIES:
                shifted = copy.copy(changed)
                shifted.ops = [_BOUNDARIES[type(op)]()]
                instead["comparison boundary"] = shifted
            changed.ops = [_OPPOSITES[type(op)]()]
            return {**instead, "comparison negated": changed}
        case ast.BinOp(op=operator) if type(operator) in _OPERATORS:
            changed.op = _OPERATORS[type(operator)]()
            return {} if _is_text(changed) else {"arithmetic swapped": changed}
        case ast.BoolOp():
            changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
            return {"and/or swapped": changed}
        case ast.UnaryOp(op=ast.Not() | ast.Invert()):
            return {"not removed": changed.operand}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name() | ast.Call()):
            return {"minus removed": changed.operand}
        case _:
            return {}


def _other_values(node: ast.AST) -> dict[str, ast.AST]:
    match node:
        case ast.Constant(value=bool() as value):
            return {"constant flipped": ast.Constant(not value)}
        case ast.Constant(value=int() | float() as value):
            return {
                "constant + 1": ast.Constant(value + 1),
                "constant - 1": ast.Constant(value - 1),
            }
        case _:
            return {}


def _is_condition(parent: ast.AST, field: str) -> bool:
    if isinstance(parent, ast.comprehension):
        return field == "ifs"
    return isinstance(parent, ast.If | ast.While | ast.IfExp) and field == "test"


def _renamed(node: ast.AST, name: str) -> ast.AST:
    changed = copy.copy(node)
    setattr(changed, "id" if isinstance(node, ast.Name) else "attr", name)
    return changed


def _is_text(node: ast.BinOp) -> bool:
    """Whether words are put together."""
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )
