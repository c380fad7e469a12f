"""Texts of rules are declared once, each is used, and nothing depends on wording."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from stepscope.advice.catalogue import catalogue
from stepscope.advice.finding import STATUSES
from stepscope.advice.item import Item, Texts
from stepscope.advice.texts_compiler import compile_texts
from stepscope.derive.host.function_purposes import WAITING_WORKS
from stepscope.unavailable import CODES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
ADVICE = ROOT / "src" / "stepscope" / "advice"
RECORDINGS = ("gpu/jax_input_bound", "gpu/torch_copies", "tf_cpu/input_bound")
DECLARED: dict[str, Texts] = {**catalogue().rules, **catalogue().shared}
#: Method → what its keys are declared as.
KINDS = {
    "action": ("declared_actions",),
    "chosen": ("declared_actions", "groups"),
    "reason": ("reasons",),
    "cannot_tell": ("reasons",),
    "not_applicable": ("reasons",),
    "note": ("notes",),
    "facts": ("units",),
}


def modules() -> Iterator[tuple[ast.Module, dict[str, Texts]]]:
    """Each module with the texts that its constants stand for."""
    for path in ADVICE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {}
        for node in tree.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
                called = ast.unparse(node.value.func)
                if called in {"rule_item", "shared_texts"}:
                    (key,) = node.value.args
                    texts[ast.unparse(node.target)] = DECLARED[ast.literal_eval(key)]
        yield tree, texts


def used_keys(call: ast.Call) -> set[str]:
    """The keys that a call names; those that are worked out are not known here."""
    named = {word.arg for word in call.keywords if word.arg is not None}
    if ast.unparse(call.func).endswith(".facts"):
        return named
    literals = (node for argument in call.args for node in ast.walk(argument))
    return {
        node.value
        for node in literals
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_each_key_that_is_used_is_declared() -> None:
    missing = []
    for tree, texts in modules():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(
                node.func, ast.Attribute
            ):
                continue
            owner = texts.get(ast.unparse(node.func.value))
            kinds = KINDS.get(node.func.attr)
            if owner is None or kinds is None:
                continue
            inner = {
                key
                for argument in node.args
                if not isinstance(argument, ast.Constant | ast.IfExp)
                for key in used_keys(ast.Call(ast.Name("nested"), [argument], []))
            }
            declared = {key for kind in kinds for key in getattr(owner, kind)}
            missing += [
                (ast.unparse(node.func), key)
                for key in used_keys(node) - inner
                if key not in declared
            ]
    assert missing == []


def test_each_key_that_is_declared_is_used() -> None:
    # Kinds of waits are keys that facts give.
    words: set[str] = set(WAITING_WORKS)
    for tree, _ in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.add(node.value)
            elif isinstance(node, ast.keyword) and node.arg is not None:
                words.add(node.arg)
    unused = []
    for name, texts in DECLARED.items():
        grouped = {key for keys in texts.groups.values() for key in keys}
        every = {*texts.reasons, *texts.notes, *texts.units, *texts.groups}
        if "default" in texts.groups or not isinstance(texts, Item):
            every |= texts.declared_actions.keys() - grouped
        unused += [(name, key) for key in every - words - {"default"}]
    assert unused == []


@pytest.mark.parametrize("name", DECLARED)
def test_texts_refer_to_what_is_declared(name: str) -> None:
    texts = DECLARED[name]
    for keys in texts.groups.values():
        assert set(keys) <= texts.declared_actions.keys()
    codes = {reason.code for reason in texts.reasons.values()}
    assert codes <= CODES.keys()
    if isinstance(texts, Item):
        assert set(texts.explains) <= catalogue().rules.keys()
        kinds = {key.partition("_")[0] for key in texts.words.texts}
        assert kinds <= set(STATUSES)


def rule(**changes: str) -> str:
    fields = {
        "id": '"a.b"',
        "stage": "1",
        "place": "1",
        "module": '"m"',
        "title": '"t"',
        "about": '"t"',
        "tools": "[]",
    } | changes
    return "\n".join(f"{key} = {value}" for key, value in fields.items())


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"one": rule(), "other": rule()}, "a.b is declared twice"),
        (
            {"one": rule() + '\n[actions.x]\nsame_as = "two.y"'},
            "the action two.y is missing",
        ),
        ({"one": "id = 1\nid = 2"}, "Cannot overwrite a value"),
    ],
)
def test_what_is_declared_twice_or_nowhere_is_refused(
    tmp_path: Path, files: dict[str, str], said: str
) -> None:
    (tmp_path / "owners.toml").write_text("")
    for name, text in files.items():
        (tmp_path / f"{name}.toml").write_text(text)
    with pytest.raises(ValueError, match=said):
        compile_texts(tmp_path)


def test_an_action_says_itself_what_differs_from_the_one_that_is_meant(
    tmp_path: Path,
) -> None:
    (tmp_path / "owners.toml").write_text("")
    (tmp_path / "one.toml").write_text(
        '[actions.x]\ncause = "c"\nframework = "JAX"\ntext = "Do."\n'
    )
    (tmp_path / "two.toml").write_text(
        '[actions]\nx = { cause = "d", same_as = "one" }\ny = { same_as = "one.x" }\n'
    )
    shared = json.loads(compile_texts(tmp_path))["shared"]
    declared = {"framework": "JAX", "text": "Do."}
    assert shared["two"]["actions"] == {
        "x": {"cause": "d", **declared, "id": "x"},
        "y": {"cause": "c", **declared, "id": "y"},
    }


def test_a_key_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "owners.toml").write_text("")
    (tmp_path / "one.toml").write_text(rule(says='{ fail = "x" }', titel='"t"'))
    compiled = json.loads(compile_texts(tmp_path))["rules"]["a.b"]
    with pytest.raises(msgspec.ValidationError, match="titel"):
        msgspec.convert(compiled, Item)


#: Judges recordings with all texts as they are, or with each of them rewritten.
JUDGED = r"""
import json, re, sys
import msgspec
from stepscope.advice import catalogue

STABLE = {"id", "module", "tools", "explains", "groups", "facts", "seen_on"}
STABLE |= {"cause", "framework", "recorder", "worker_codes"}

def rewritten(value, key=""):
    if key in STABLE:
        return value
    if isinstance(value, str):
        parts = re.split(r"(\{[^}]*\})", value)
        return "".join(
            one if one.startswith("{") else re.sub(r"[A-Za-z]+", "so", one)
            for one in parts
        )
    if isinstance(value, list):
        return [rewritten(one) for one in value]
    if isinstance(value, dict):
        new = {name: rewritten(one, name) for name, one in value.items()}
        return new | {"code": value["code"]} if "reason" in value else new
    return value

compiled = json.loads(catalogue._compiled())
if sys.argv[1] == "rewritten":
    compiled["rules"] = rewritten(compiled["rules"])
    compiled["shared"] = rewritten(compiled["shared"])
catalogue._compiled = lambda: json.dumps(compiled).encode()

from stepscope.advice.engine import evaluate, signals_of
from stepscope.session import open_profile

TEXTS = {
    "stage": {"title", "confirm", "refute", "floors"},
    "framework": {"text", "code", "env"},
    "remedy": {"reason", "remedy"},
    "unit": {"note"},
    "inclusive": {"name", "detail"},
}

def without_texts(value):
    if isinstance(value, list):
        return [without_texts(one) for one in value]
    if not isinstance(value, dict):
        return value
    kind = next((name for name in TEXTS if name in value), None)
    texts = TEXTS.get(kind, ())
    return {key: without_texts(one) for key, one in value.items() if key not in texts}

for path in sys.argv[2:]:
    found = evaluate(signals_of(open_profile(path)))
    print(json.dumps(without_texts(json.loads(msgspec.json.encode(found)))))
"""


def judged(how: str) -> str:
    paths = [str(ROOT / "tests" / "data" / name) for name in RECORDINGS]
    done = subprocess.run(
        [sys.executable, "-c", JUDGED, how, *paths],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


#: Programs of a shell, C++ and CUDA with which samples begin that are no Python.
OTHER_LANGUAGES = (
    *("nsys ", "stepscope ", "taskset ", "numactl ", "perf ", "vllm ", "torchrun "),
    *("nvtxRangePushA", "__shared__"),
)


@pytest.mark.parametrize("name", DECLARED)
def test_code_that_is_shown_is_complete(name: str) -> None:
    """A decorator stands before a function."""
    for key, action in DECLARED[name].declared_actions.items():
        code = action.code
        if code is not None and not code.startswith(OTHER_LANGUAGES):
            ast.parse(f"{code}\ndef f(): pass" if code[0] == "@" else code)
            assert not {"…", "...", "·"} & {*code, *code.split()}, key


@pytest.mark.slow(seconds=2.2)
def test_another_wording_changes_no_number_and_no_choice() -> None:
    plain = judged("plain")
    assert len(plain.splitlines()) == len(RECORDINGS)
    assert judged("rewritten") == plain
