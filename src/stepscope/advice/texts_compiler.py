"""Compile the declared texts of rules into one file that is read in a millisecond.

This module needs only the standard library, because it runs while the package is built.
"""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: Keys whose texts are copied unchanged; in other texts, line breaks become spaces.
_VERBATIM: Final = frozenset({"code", "env"})
#: Keys that only the documentation pages use.
_OF_PAGES: Final = ("also_advises", "page")
#: The remedy of a reason that declares no remedy.
_NOTHING_TO_DO: Final = "Nothing to do."
#: Placeholder for the number of workers in a line of code.
_WORKERS: Final = "{workers}"
#: Path of the table of actions against slow input, relative to the declared texts.
_INPUT_ACTIONS: Final = "../../derive/verdicts/input_actions.json"
#: Fields of a row of that table that describe an action; tools use the other fields.
_OF_ACTIONS: Final = ("text", "framework", "code", "workers", "models")


def compile_texts(folder: Path) -> bytes:
    """Return the compiled declarations of all files of a folder.

    Raises:
        ValueError: Two files declare the same rule, or a reference has no declaration.
    """
    files = {
        path.stem: _fill_lines(tomllib.loads(path.read_text(encoding="utf-8")))
        for path in sorted(folder.glob("*.toml"))
    }
    table = folder / _INPUT_ACTIONS
    rows = json.loads(table.read_bytes()) if table.exists() else {}
    input_actions = {
        key: {name: row[name] for name in _OF_ACTIONS if name in row}
        for key, row in rows.items()
    }
    tables = {"input_actions": {"actions": input_actions}}
    compiled: dict[str, Any] = {
        "owners": files.pop("owners"),
        "rules": {},
        "shared": {},
    }
    for name, file in files.items():
        texts = _compile_file(name, file, files | tables)
        if "id" not in file:
            compiled["shared"][name] = texts
            continue
        if file["id"] in compiled["rules"]:
            raise ValueError(f"{name}.toml: {file['id']} is declared twice")
        compiled["rules"][file["id"]] = texts | {
            "words": _compile_sentences(file, files, compiled["owners"])
        }
    positions = [(rule["stage"], rule["place"]) for rule in compiled["rules"].values()]
    if len(set(positions)) < len(positions):
        raise ValueError("two rules of a stage have the same place")
    return json.dumps(compiled, ensure_ascii=False).encode()


def _fill_lines(value: Any, key: str = "") -> Any:
    """Return a value with the line breaks of its texts replaced by spaces."""
    if isinstance(value, str):
        return value if key in _VERBATIM else " ".join(value.split())
    if isinstance(value, list):
        return [_fill_lines(element, key) for element in value]
    if isinstance(value, dict):
        of_code = key == "code"
        return {
            name: _fill_lines(element, key if of_code else name)
            for name, element in value.items()
        }
    return value


def _compile_file(name: str, file: Mapping[str, Any], files: Mapping[str, Any]) -> Any:
    """Return the declarations of a file, without its sentences about findings."""
    excluded = {*_OF_PAGES, *_OF_WORDS}
    texts = {key: value for key, value in file.items() if key not in excluded}
    actions: dict[str, Any] = {}
    codes: dict[str, tuple[str, int]] = {}
    conditions = {}
    compiling = []
    defaults = {"models": texts.pop("models")} if "models" in texts else {}
    declared = {
        each_key: action
        for key, action in file.get("actions", {}).items()
        for each_key, action in _each_action(key, _resolve(name, key, action, files))
    }
    for key, action in declared.items():
        if "when" in action:
            conditions[key] = action.pop("when")
        if action.pop("compiles", False):
            compiling.append(key)
        if "workers" in action:
            workers = action.pop("workers")
            codes[key] = (action["code"], workers)
            action["code"] = action["code"].replace(_WORKERS, str(workers))
        actions[key] = {"cause": "any", "framework": "any", **defaults, **action}
        actions[key]["id"] = key
    # A file declares facts as fact → unit, or as unit → facts.
    units = file.get("facts", {})
    by_fact = {key: unit for key, unit in units.items() if isinstance(unit, str)}
    named = {unit: keys for unit, keys in units.items() if isinstance(keys, list)}
    return texts | {
        "facts": by_fact | {key: unit for unit, keys in named.items() for key in keys},
        "reasons": {
            key: {"remedy": _NOTHING_TO_DO} | reason
            for key, reason in file.get("reasons", {}).items()
        },
        "actions": actions,
        "conditions": conditions,
        "compiling": compiling,
        "worker_codes": codes,
    }


def _each_action(key: str, action: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the actions of one declaration, each with a separate key.

    The code of an action may be a table, framework → line, and its cause a list.
    """
    codes = action.get("code")
    if isinstance(codes, dict):
        for framework, code in codes.items():
            each = dict(action) | {"framework": framework, "code": code}
            yield from _each_action(f"{key}_{framework.lower()}", each)
    elif isinstance(action.get("cause"), list):
        for cause in action["cause"]:
            yield f"{key}_{cause}", dict(action) | {"cause": cause}
    else:
        yield key, dict(action)


def _resolve(name: str, key: str, action: Any, files: Mapping[str, Any]) -> Any:
    """Return an action with missing fields filled from the action that it refers to.

    `same_as` is `file.key`, or only the file if the key is the same.
    """
    reference = action.get("same_as")
    if reference is None:
        return action
    file, _, other_key = reference.partition(".")
    try:
        meant = files[file]["actions"][other_key or key]
    except KeyError:
        raise ValueError(f"{name}.toml: the action {reference} is missing") from None
    own = {word: value for word, value in action.items() if word != "same_as"}
    return meant | own


#: Keys of a rule's file that describe its sentences.
_OF_WORDS: Final = (
    *("passed", "title_of_recording"),
    *("lead", "causes", "phrases", "says", "says_like"),
)


def _compile_sentences(
    file: Mapping[str, Any], files: Mapping[str, Any], owners: Mapping[str, Any]
) -> dict[str, Any]:
    phrases = file.get("phrases", {})
    says = file.get("says", {})
    if "says_like" in file:
        says = files[file["says_like"]]["says"] | says
    causes = file.get("causes", {})
    if causes == "owners":
        causes = {key: text for group in owners.values() for key, text in group.items()}
    return {
        "passed": file.get("passed"),
        "title_of_recording": file.get("title_of_recording"),
        "lead": _list_alternatives(file.get("lead", []), phrases),
        "causes": causes,
        "texts": {
            key: [_list_alternatives(sentence, phrases) for sentence in _as_list(text)]
            for key, text in says.items()
        },
    }


def _as_list(text: str | list[Any]) -> list[Any]:
    return [text] if isinstance(text, str) else text


def _list_alternatives(
    sentence: str | list[str], phrases: Mapping[str, str | list[str]]
) -> list[str]:
    """Return the alternatives of a sentence; `@name` stands for a phrase."""
    return [
        choice
        for text in _as_list(sentence)
        for choice in (_as_list(phrases[text[1:]]) if text.startswith("@") else [text])
    ]
