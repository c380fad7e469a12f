"""Routes, and their parameters and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, get_args, get_origin

import msgspec
from werkzeug.wrappers import Response

from stepscope.serve.errors import Refused
from stepscope.serve.runs.store import digest_text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from werkzeug.datastructures import MultiDict
    from werkzeug.wrappers import Request

    from stepscope.analysis.results.tool import Tool
    from stepscope.reporting.plain import Plain
    from stepscope.serve.recorder import Capturing
    from stepscope.serve.runs.opened import Opened
    from stepscope.serve.runs.program_files import ProgramFiles
    from stepscope.serve.runs.store import Entry, Lane, Question, Store

#: Maximum distance of a time parameter from the start of a trace, in ps.
MAX_PS: Final = 2**62

#: Maximum number of characters of a name or value; maximum number of parameters.
_MAX_CHARS: Final = 4096
_MAX_PARAMS: Final = 256
#: Largest integer that every JSON reader reads exactly.
_MAX_EXACT_INT: Final = 2**53
#: Options of tools that are not parameters: the parameter `hosts` replaces them.
HIDDEN_OPTIONS: Final = frozenset({"host", "hosts"})

Value = TypeVar("Value", int, bool)


class Parameters:
    """The parameters of a request's query."""

    def __init__(self, values: MultiDict[str, str]) -> None:
        self._given = {name: values.getlist(name) for name in values}
        if sum(map(len, self._given.values())) > _MAX_PARAMS:
            raise bad_parameter(f"the request has more than {_MAX_PARAMS} parameters")
        for name, texts in self._given.items():
            if len(name) > _MAX_CHARS or any(len(text) > _MAX_CHARS for text in texts):
                raise bad_parameter(
                    f"{name[:32]!r}: is longer than {_MAX_CHARS} characters"
                )

    def read_text(self, name: str) -> str | None:
        """Read one text; None if not given."""
        values = self._given.pop(name, [])
        if len(values) > 1:
            raise bad_parameter(f"{name}: is given more than once")
        return values[0] if values else None

    def read_texts(self, name: str) -> tuple[str, ...]:
        """Read all texts of a name, sorted and without duplicates."""
        return tuple(sorted(set(self._given.pop(name, []))))

    def read_limited(self, name: str, *, default: int, highest: int) -> int:
        """Read an integer and limit it to the range 0 to `highest`."""
        return min(max(self._read_converted(name, int, default), 0), highest)

    def read_integer(self, name: str, default: int | None = None) -> int:
        """Read an integer, which may be negative; required if it has no default.

        Larger numbers than `MAX_PS` become `MAX_PS`.
        """
        if name not in self._given and default is None:
            raise bad_parameter(f"{name}: is missing")
        return _limited_time(self._read_converted(name, int, default or 0))

    def read_integers(self, name: str) -> tuple[int, ...]:
        """Read all integers of a name, in the given order."""
        texts = self._given.pop(name, [])
        return tuple(_limited_time(_convert_text(name, text, int)) for text in texts)

    def read_flag(self, name: str) -> bool:
        """Read `true` or `1`, `false` or `0`; False if not given."""
        return self._read_converted(name, bool, default=False)

    def read_exact(self, name: str) -> int | None:
        """Read an integer from 0 to 2^53, exact in JSON; None if not given."""
        if name not in self._given:
            return None
        number = self._read_converted(name, int, default=0)
        if not 0 <= number <= _MAX_EXACT_INT:
            raise bad_parameter(f"{name}: is not between 0 and {_MAX_EXACT_INT}")
        return number

    def read_options(self, tool: Tool) -> dict[str, object]:
        """Read the options that the tool declares."""
        texts: dict[str, object] = {}
        for field in msgspec.structs.fields(tool.options):
            if field.name in self._given and field.name not in HIDDEN_OPTIONS:
                values = self._given.pop(field.name)
                kinds = (field.type, *get_args(field.type))
                # A list is given as several parameters of one name.
                takes_several = any(get_origin(kind) is tuple for kind in kinds)
                if len(values) > 1 and not takes_several:
                    raise bad_parameter(f"{field.name}: is given more than once")
                texts[field.name] = values if takes_several else values[0]
        try:
            chosen = msgspec.convert(texts, tool.options, strict=False)
        except msgspec.ValidationError as error:
            raise bad_parameter(f"{tool.name}: {error}") from error
        return {name: getattr(chosen, name) for name in texts}

    def check_all_read(self) -> None:
        """Check that every given parameter was read.

        Raises:
            Refused: The route has no parameter of this name.
        """
        if self._given:
            raise bad_parameter(
                f"this address has no parameter {next(iter(self._given))!r}"
            )

    def _read_converted(self, name: str, kind: type[Value], default: Value) -> Value:
        text = self.read_text(name)
        return default if text is None else _convert_text(name, text, kind)


def _convert_text(name: str, text: str, kind: type[Value]) -> Value:
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        wanted = "a whole number" if kind is int else "true or false"
        raise bad_parameter(f"{name}: is not {wanted}") from error


def _limited_time(number: int) -> int:
    return min(max(number, -MAX_PS), MAX_PS)


def bad_parameter(message: str) -> Refused:
    """Return the error for a request with invalid parameters."""
    return Refused(400, "bad_parameter", message)


JSON: Final = "application/json"
#: Media type of a frame, see `frames`.
COLUMNS: Final = "application/octet-stream"
#: Caching for one year: an address with a version always has the same content.
_FOR_GOOD: Final = "private, max-age=31536000, immutable"
_ASK_AGAIN: Final = "private, no-cache"


class Query(NamedTuple):
    """One request, with everything needed to answer it.

    Attributes:
        request: The request.
        given: Parameters of the request.
        store: The store that computes and keeps answers.
        salt: Text in every tag, so that tags are valid for this process only: another
            version of stepscope may answer differently.
        ahead: Questions that are likely to be asked next about a run.
        captures: Recorder of running programs; None if this server does not record.
        program: Files of the program; None if they are not shown.
    """

    request: Request
    given: Parameters
    store: Store
    salt: str
    ahead: Sequence[Question] = ()
    captures: Capturing | None = None
    program: ProgramFiles | None = None

    def answer_from_store(
        self,
        question: Hashable,
        compute: Callable[[Opened], bytes],
        *,
        run: str | None = None,
        media_type: str = JSON,
        stages: int = 1,
    ) -> Response:
        """Answer from the store, after every parameter has been read.

        Args:
            question: Everything that the answer depends on, except the run.
            compute: Computes the answer if the store does not have it.
            run: Id of the run; None for the run of the parameter `run`.
            media_type: Media type of the answer.
            stages: Number of stages that `compute` announces.
        """
        run_id = self.given.read_text("run") if run is None else run
        self.given.check_all_read()
        entry = self.store.find_entry(run_id)

        def stored_answer() -> bytes:
            content = self.store.kept_answer(entry, question, compute, stages=stages)
            self.store.work_ahead(entry, self.ahead)
            return content

        return self._tagged_response(
            entry, question, stored_answer, media_type=media_type
        )

    def answer_in_lane(
        self,
        question: Hashable,
        compute: Callable[[Opened], bytes],
        *,
        run: str | None = None,
        lane: Lane,
        media_type: str = JSON,
    ) -> Response:
        """Answer in parallel with the store's computation, after reading parameters.

        The client may cache the answer for a year if it names the version of the
        answer, see `answer_version`.
        """
        version = self.given.read_text("version")
        run_id = self.given.read_text("run") if run is None else run
        self.given.check_all_read()
        entry = self.store.find_entry(run_id)
        response = self._tagged_response(
            entry,
            question,
            lambda: self.store.look_up(entry, compute, lane=lane),
            media_type=media_type,
        )
        if version == self.answer_version(entry):
            response.headers["Cache-Control"] = _FOR_GOOD
        return response

    def answer_version(self, entry: Entry) -> str:
        """Return the version of a run's answers, from its files and this process."""
        return digest_text(f"{self.salt} {entry.version}")[:16]

    def _tagged_response(
        self,
        entry: Entry,
        question: Hashable,
        answer: Callable[[], bytes],
        *,
        media_type: str,
    ) -> Response:
        tag = digest_text(repr((self.salt, entry.id, entry.version, question)))
        if self.request.if_none_match.contains(tag) and entry.state == "ready":
            response = Response(status=304)
        else:
            response = Response(answer(), content_type=media_type)
        response.headers["Cache-Control"] = _ASK_AGAIN
        response.set_etag(tag)
        return response


class Route(NamedTuple):
    """An address, the function that answers it, and whether it changes something."""

    path: str
    answer: Callable[..., Response]
    changes: bool = False


def json_response(value: Plain) -> Response:
    """Return a JSON response."""
    return Response(msgspec.json.encode(value), content_type=JSON)
