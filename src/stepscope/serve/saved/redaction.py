"""Names in a file are replaced by hashes; words that stepscope itself contains stay.

A name is split into words: letters, digits and underscores. Every word that is neither
in the texts and data of this package nor part of the name of a public library's kernel
or op becomes a hash, in texts, addresses and timelines alike. So do all words of the
run, of hosts, and of paths and scopes that the package does not contain as a whole.
What nobody listed is replaced, so a new kind of name cannot be forgotten.
"""

from __future__ import annotations

import ast
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import msgspec
import polars as pl

import stepscope
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.serve.saved.run_answers import SavedRun, encode_options, page_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_WORD: Final = Pattern(r"\w{3,}")
#: Paths of files, scopes, and names with a hyphen.
_INSIDE: Final = r"[^\s`'\"“”‘’()\[\]{}<>,;=]*"
_PATH: Final = Pattern(rf"{_INSIDE}\w(?:[/\-]\w|\.py\b){_INSIDE}")
#: Words without a letter are numbers.
_LETTER: Final = Pattern(r"[^\W\d_]")
_NUMBER: Final = Pattern(r"_?\d+$")
#: Names of kernels, ops and calls of public libraries.
_PUBLIC: Final = Pattern(
    r"^(?:void |int |bool )?(?:at|c10|c10d|cub|cutlass|thrust|aten|prims?|Eigen"
    r"|tensorflow|xla|torch|flash|pytorch_flash|fmha|std)(?:::|_)"
    r"|^(?:cu|cuda|cublas|cudnn|cufft|cusparse|hip|nccl|roc|miopen)(?:Lt)?_?[A-Z]\w*$"
    r"|(?:gemm|xmma|cutlass|nvjet|cudnn|cublas|nccl|Cijk_|splitK|nchwToNhwc)"
    r"|^Iterator::|^Mem(?:cpy|set)\b|^ProfilerStep"
)
#: Suffixes of this package's files with texts; demo programs are left out.
_SUFFIXES: Final = frozenset({".py", ".json", ".toml", ".md", ".js", ".html"})
_DEMO: Final = "demo_"
_PUNCTUATION: Final = ".:-"
_HASH_BYTES: Final = 4


class Redacted(Frozen, frozen=True):
    """A run with hashes for names.

    Attributes:
        run: The answers and slices.
        names: Hash → the word that it replaces.
    """

    run: SavedRun
    names: dict[str, str]


def redact_run(run: SavedRun) -> Redacted:
    """Replace the words of all names in a run that are not public."""
    decoded = {
        address: msgspec.json.decode(answer) for address, answer in run.answers.items()
    }
    shown = {
        name
        for host in run.slices
        for column in ("name", "full_name")
        for name in host.slices[column].unique()
    }
    public = {
        word
        for name in (*shown, *_inner_texts(list(decoded.values())))
        if _PUBLIC.search(name)
        for word in _words_and_paths(name)
    }
    columns = {
        word
        for answer in decoded.values()
        for column in _columns_of(answer)
        for word in _words_and_paths(column)
    }
    (listed,) = decoded[page_address("runs")]["runs"]
    replacing = _Replacing(
        own_words() | public | columns,
        always=(listed["name"], *listed["hosts"]),
    )
    answers = {
        replacing.replace_options(address): msgspec.json.encode(
            replacing.replace_texts(answer)
        )
        for address, answer in decoded.items()
    }
    slices = tuple(
        msgspec.structs.replace(
            host,
            host=replacing.replace_words(host.host),
            slices=host.slices.with_columns(
                _replaced_names(host.slices[column], replacing)
                for column in ("name", "full_name")
            ),
        )
        for host in run.slices
    )
    return Redacted(SavedRun(answers=answers, slices=slices), replacing.names)


def _replaced_names(column: pl.Series, replacing: _Replacing) -> pl.Series:
    names = column.cast(pl.String).unique().drop_nulls().to_list()
    return column.cast(pl.String).replace(names, [*map(replacing.replace_words, names)])


class _Replacing:
    """Replaces words that are not known, the same word always by the same hash."""

    def __init__(self, known: frozenset[str], always: Sequence[str]) -> None:
        self.names: dict[str, str] = {}
        self._known = known
        longest_first = sorted(always, key=len, reverse=True)
        whole = "|".join(map(re.escape, longest_first))
        self._always = re.compile(rf"(?<!\w)(?:{whole})(?!\w)")

    def replace_words(self, text: str) -> str:
        """Return a text with hashes for its unknown words, paths and hosts."""
        text = self._always.sub(lambda found: self._hash(found[0]), text)
        text = _PATH.sub(self._replace_path, text)
        return _WORD.sub(self._replace_word, text)

    def _replace_path(self, found: re.Match[str]) -> str:
        path = found[0].strip(_PUNCTUATION)
        words = _WORD.findall(path)
        is_own = path in self._known or not all(map(self._is_known, words))
        if is_own or not _LETTER.search(path):
            # Unknown words in it are replaced one by one.
            return found[0]
        return _WORD.sub(
            lambda word: self._hash(word[0]) if _LETTER.search(word[0]) else word[0],
            found[0],
        )

    def _is_known(self, word: str) -> bool:
        # A number after a known word tells its instances apart.
        is_number = not _LETTER.search(word)
        return is_number or bool({word, _NUMBER.sub("", word)} & self._known)

    def replace_options(self, address: str) -> str:
        """Return an address whose options have hashes for unknown words."""
        path, mark, query = address.partition("?")
        given = parse_qsl(query, keep_blank_values=True)
        options = [(name, self.replace_words(text)) for name, text in given]
        return f"{path}{mark}{encode_options(options)}"

    def replace_texts(self, value: Any) -> Any:
        """Return a JSON value with hashes in all texts and names of members."""
        match value:
            case str():
                return self.replace_words(value)
            case list():
                return [self.replace_texts(each) for each in value]
            case dict():
                return {
                    self.replace_words(name): self.replace_texts(each)
                    for name, each in value.items()
                }
        return value

    def _replace_word(self, found: re.Match[str]) -> str:
        word = found[0]
        is_hash = word in self.names
        return word if is_hash or self._is_known(word) else self._hash(word)

    def _hash(self, word: str) -> str:
        digest = hashlib.blake2b(word.encode(), digest_size=_HASH_BYTES).hexdigest()
        self.names[f"n{digest}"] = word
        return f"n{digest}"


@cache
def own_words() -> frozenset[str]:
    """Return the words of all texts, data and names of fields of this package."""
    root = Path(stepscope.__file__).parent
    words: set[str] = set()
    for path in root.rglob("*"):
        inside = path.relative_to(root).parts
        if path.suffix not in _SUFFIXES or any(_DEMO in part for part in inside):
            continue
        text = path.read_text("utf-8")
        parts = _python_texts(text) if path.suffix == ".py" else (text,)
        for part in parts:
            words.update(_words_and_paths(part))
    return frozenset(words)


def _words_and_paths(text: str) -> Iterator[str]:
    yield from _WORD.findall(text)
    for path in _PATH.findall(text):
        yield path.strip(_PUNCTUATION)


def _python_texts(code: str) -> Iterator[str]:
    """Yield the texts and the names of fields of a module, without its docstrings."""
    tree = ast.parse(code)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in docstrings:
                yield node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _columns_of(answer: Any) -> list[str]:
    """Return the names of the columns of a table; some are made of several names."""
    columns = answer.get("columns", []) if isinstance(answer, dict) else []
    return [column["name"] for column in columns]


def _inner_texts(values: Iterable[Any]) -> Iterator[str]:
    """Yield all texts in JSON values."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from _inner_texts(value)
        elif isinstance(value, dict):
            yield from _inner_texts(value.values())
