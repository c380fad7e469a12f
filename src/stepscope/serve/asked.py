"""One request about a run: who answers it, and how long the answer may be kept."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from werkzeug.wrappers import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from werkzeug.wrappers import Request

    from stepscope.report.plain import Plain
    from stepscope.serve.parameters import Parameters
    from stepscope.serve.recorder import Capturing
    from stepscope.serve.runs.opened import Opened
    from stepscope.serve.runs.program_files import ProgramFiles
    from stepscope.serve.runs.store import Entry, Lane, Question, Store

JSON: Final = "application/json"
#: A year: what is named by its version never changes.
_FOR_GOOD: Final = "private, max-age=31536000, immutable"
_ASK_AGAIN: Final = "private, no-cache"


class Asked(NamedTuple):
    """One request, with what is needed to answer it.

    Attributes:
        request: The request.
        given: Its parameters.
        store: The store that computes and keeps answers.
        salt: A part of every tag: a changed program may answer differently, so tags
            are valid only while this process runs.
        ahead: Questions that are likely to be asked next about a run.
        captures: What records running programs; None where nothing does.
        program: The program's files; None where they are not shown.
    """

    request: Request
    given: Parameters
    store: Store
    salt: str
    ahead: Sequence[Question] = ()
    captures: Capturing | None = None
    program: ProgramFiles | None = None

    def about_a_run(
        self,
        question: Hashable,
        compute: Callable[[Opened], bytes],
        *,
        run: str | None,
        media_type: str = JSON,
        stages: int = 1,
    ) -> Response:
        """Answer from the store, once every parameter has been read."""
        self.given.end()
        entry = self.store.entry(run)

        def answer() -> bytes:
            content = self.store.answer(entry, question, compute, stages=stages)
            self.store.work_ahead(entry, self.ahead)
            return content

        return self._tagged(entry, question, answer, media_type=media_type)

    def beside(
        self,
        question: Hashable,
        compute: Callable[[Opened], bytes],
        *,
        run: str | None,
        lane: Lane,
        media_type: str = JSON,
    ) -> Response:
        """Answer beside what the store computes, once the parameters have been read.

        The client may keep an answer for good if it names the version that it asks
        about: see `version_of`.
        """
        version = self.given.text("version")
        self.given.end()
        entry = self.store.entry(run)
        response = self._tagged(
            entry,
            question,
            lambda: self.store.look_up(entry, compute, lane=lane),
            media_type=media_type,
        )
        if version == self.version_of(entry):
            response.headers["Cache-Control"] = _FOR_GOOD
        return response

    def version_of(self, entry: Entry) -> str:
        """Return the version of a run's answers: of its files and of this program."""
        return digest(f"{self.salt} {entry.version}")[:16]

    def _tagged(
        self,
        entry: Entry,
        question: Hashable,
        answer: Callable[[], bytes],
        *,
        media_type: str,
    ) -> Response:
        tag = digest(repr((self.salt, entry.id, entry.version, question)))
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
    """Make the response of a value."""
    return Response(msgspec.json.encode(value), content_type=JSON)


def digest(text: str) -> str:
    """Return a short text that identifies another one."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
