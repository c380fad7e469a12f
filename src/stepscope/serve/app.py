"""The WSGI application: a table of routes, and the one place where errors get a status.

It has no state of its own and does not depend on a prefix: it answers at `/` and inside
another server.
"""

from __future__ import annotations

import gzip
import logging
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from stepscope import __version__
from stepscope.analysis.tools import TOOLS, find_tool
from stepscope.errors import BadUsage, StepscopeError
from stepscope.report.plain import plain
from stepscope.serve import capturing, pages, security, timeline
from stepscope.serve.errors import Refused
from stepscope.serve.parameters import (
    HIDDEN_OPTIONS,
    JSON,
    Asked,
    Parameters,
    Route,
    json_response,
)
from stepscope.serve.runs import answers
from stepscope.serve.runs.answers import SCHEMA, TableQuestion, ToolQuestion
from stepscope.serve.runs.program_files import ProgramText
from stepscope.serve.runs.store import Lane, Question

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from stepscope.analysis.results.tool import Tool
    from stepscope.report.plain import Plain
    from stepscope.serve.pages import File
    from stepscope.serve.recorder import Capturing
    from stepscope.serve.runs.opened import Opened
    from stepscope.serve.runs.program_files import ProgramFiles
    from stepscope.serve.runs.store import Entry, Store
    from stepscope.serve.security import Policy

_LOG: Final = logging.getLogger(__name__)
#: Rows of a table in a tool's answer: by default, and at most.
_ROWS: Final = 2000
_MOST_ROWS: Final = 20_000
#: Rows of one page of a table by default.
_PAGE_ROWS: Final = 200
#: A row number that no table reaches.
_FURTHEST: Final = 2**53
_NO_TEXT: Final = (
    "`stepscope serve LOGDIR --source DIR` shows the text of the program's files that "
    "lie in DIR; TensorBoard shows none."
)
_LONGEST_QUERY: Final = 16 * 2**10
_LONGEST_BODY: Final = 64 * 2**10
#: Smaller answers are not worth compressing.
_WORTH_PACKING: Final = 2**11
_SECONDS_TO_MS: Final = 1000


def status(asked: Asked) -> Response:
    """Answer with what is being computed, and the tag of the list of runs."""
    asked.given.end()
    work = asked.store.work
    told: Plain = None
    if work is not None:
        elapsed = time.monotonic() - work.since_s
        told = {
            "run": work.run,
            "what": work.what,
            "done": max(work.done, 0),
            "of": work.of,
            "elapsed_ms": int(elapsed * _SECONDS_TO_MS),
        }
    tag = asked.store.listing().tag
    return json_response(
        {"schema": SCHEMA, "version": __version__, "runs": tag, "work": told}
    )


def runs(asked: Asked) -> Response:
    """Answer with every run of the log directory, newest first."""
    asked.given.end()
    store = asked.store
    listing = store.listing()
    empty: Plain = None
    if not listing.entries:
        empty = {
            "reason": listing.problem or f"{store.source.name} holds no profile yet.",
            "remedy": "Record one into plugins/profile/<run>/<host>.xplane.pb or "
            "<run>/<worker>.pt.trace.json below it; it appears here by itself.",
        }
    response = json_response(
        {
            "schema": SCHEMA,
            "log_directory": store.source.name,
            "runs": [_told(entry) for entry in listing.entries],
            "refused": [
                {"name": name, "reason": reason} for name, reason in listing.refused
            ],
            "empty": empty,
        }
    )
    response.headers["Cache-Control"] = "private, no-cache"
    response.set_etag(listing.tag)
    response.make_conditional(asked.request)
    return response


def tools(asked: Asked) -> Response:
    """Answer with every tool and its options."""
    asked.given.end()
    return json_response(
        {"schema": SCHEMA, "tools": [_described(tool) for tool in TOOLS]}
    )


def profile(asked: Asked) -> Response:
    """Answer with hosts, devices and doubts of a run."""
    run, hosts = asked.given.text("run"), asked.given.texts("hosts")
    return asked.about_a_run(
        ("profile", hosts), lambda opened: answers.profile(opened, hosts), run=run
    )


def tool(asked: Asked, name: str) -> Response:
    """A tool's envelope."""
    run = asked.given.text("run")
    rows = asked.given.number("rows", default=_ROWS, most=_MOST_ROWS)
    key, compute = _about_a_tool(_tool_question(asked, name), rows)
    return asked.about_a_run(key, compute, run=run)


def table(asked: Asked, name: str) -> Response:
    """Answer with a page of a table."""
    run = asked.given.text("run")
    limit = asked.given.number("limit", default=_PAGE_ROWS, most=_MOST_ROWS)
    question = _table_question(asked, name)._replace(limit=limit)
    return asked.about_a_run(
        ("table", question._replace(of=_key(question.of))),
        lambda opened: answers.table(opened, question),
        run=run,
    )


def frame(asked: Asked, name: str) -> Response:
    """Answer with a table, or a part of it, in columns."""
    run = asked.given.text("run")
    limit = asked.given.number("limit", default=_FURTHEST, most=_FURTHEST)
    question = _table_question(asked, name)._replace(limit=limit)
    return asked.about_a_run(
        ("frame", question._replace(of=_key(question.of))),
        lambda opened: answers.frame(opened, question),
        run=run,
        media_type="application/octet-stream",
    )


def csv(asked: Asked, name: str) -> Response:
    """Answer with a table as a CSV file."""
    run = asked.given.text("run")
    question = _table_question(asked, name, is_paged=False)
    response = asked.about_a_run(
        ("csv", question._replace(of=_key(question.of))),
        lambda opened: answers.csv(opened, question),
        run=run,
        media_type="text/csv; charset=utf-8",
    )
    told = f"{question.of.tool.name}-{question.table or 'table'}"
    file = "".join(one if one.isascii() and one.isalnum() else "_" for one in told)
    response.headers["Content-Disposition"] = f'attachment; filename="{file}.csv"'
    return response


def difference(asked: Asked) -> Response:
    """Answer with what changed from one run to another."""
    given, store = asked.given, asked.store
    run, base, same_work = (
        given.text("run"),
        given.text("base"),
        given.flag("same_work"),
    )
    given.end()
    if base is None:
        raise Refused(400, "bad_parameter", "base: names the run to compare with")
    new, other = store.entry(run), store.entry(base)
    if new.id == other.id:
        message = f"base: {other.run.name} cannot be compared with itself"
        raise Refused(400, "bad_parameter", message)
    # One profile is open at a time: what is needed of this one is taken first.
    measured = store.answer(new, ("measured",), answers.measured_run)
    return asked.about_a_run(
        ("compare", new.id, new.version, same_work),
        lambda opened: answers.compared(opened, measured, same_work=same_work),
        run=base,
    )


def explain(asked: Asked) -> Response:
    """Answer with whose time a stretch is."""
    given = asked.given
    run, host, device = given.text("run"), given.text("host"), given.whole("device")
    at, begin, end = (given.whole(f"{name}_ps") for name in ("at", "from", "to"))
    wanted: int | tuple[int, int]
    if at is not None and begin is None and end is None:
        wanted = at
    elif at is None and begin is not None and end is not None:
        wanted = (begin, end)
    else:
        message = "give either at_ps, or both from_ps and to_ps"
        raise Refused(400, "bad_parameter", message)
    return asked.beside(
        ("explain", host, wanted, device),
        lambda opened: answers.explained(opened, host, wanted, device=device),
        run=run,
        lane=Lane.SEARCHING,
    )


def findings(asked: Asked) -> Response:
    """Every finding."""
    run, hosts = asked.given.text("run"), asked.given.texts("hosts")
    return asked.about_a_run(
        ("findings", hosts), lambda opened: answers.findings(opened, hosts), run=run
    )


def report(asked: Asked) -> Response:
    """Answer with the report of a run."""
    run, hosts = asked.given.text("run"), asked.given.texts("hosts")
    form = asked.given.text("format") or answers.REPORT_FORMATS[0]
    if form not in answers.REPORT_FORMATS:
        known = ", ".join(answers.REPORT_FORMATS)
        raise Refused(400, "bad_parameter", f"format: is none of {known}")
    return asked.about_a_run(
        ("report", form, hosts),
        lambda opened: answers.report(opened, hosts, form=form),
        run=run,
        media_type=JSON if form == "json" else "text/plain; charset=utf-8",
        stages=len(TOOLS) + 1,
    )


def source(asked: Asked) -> Response:
    """Answer with the text of one of the program's files, or why it is not shown."""
    given, store = asked.given, asked.store
    run, hosts, file = given.text("run"), given.texts("hosts"), given.text("file")
    given.end()
    entry = store.entry(run)
    named = store.answer(
        entry,
        ("source", hosts),
        lambda opened: answers.program_files(opened, hosts),
    )
    if file is None or file not in msgspec.json.decode(named):
        raise Refused(404, "unknown_file", "file: no line of this name has a time")
    text = ProgramText(reason=_NO_TEXT)
    if asked.program is not None:
        text = asked.program.text(file, recorded_unix_s=entry.run.unix_s)
    return json_response({"schema": SCHEMA, "file": file, **msgspec.to_builtins(text)})


def reload(asked: Asked) -> Response:
    """Look at the log directory again, now."""
    asked.given.end()
    asked.store.forget()
    tag = asked.store.listing(now=True).tag
    return json_response({"schema": SCHEMA, "runs": tag})


ROUTES: Final = (
    Route("/data/status", status),
    Route("/data/runs", runs),
    Route("/data/tools", tools),
    Route("/data/profile", profile),
    Route("/data/tool/<name>", tool),
    Route("/data/table/<name>", table),
    Route("/data/frame/<name>", frame),
    Route("/data/csv/<name>", csv),
    Route("/data/compare", difference),
    Route("/data/explain", explain),
    Route("/data/findings", findings),
    Route("/data/report", report),
    Route("/data/source", source),
    Route("/data/reload", reload, changes=True),
    *capturing.ROUTES,
    *timeline.ROUTES,
)

_MAP: Final = Map(
    [
        Rule(
            route.path,
            endpoint=route,
            methods=["POST"] if route.changes else ["GET", "HEAD"],
        )
        for route in ROUTES
    ],
    strict_slashes=False,
    merge_slashes=False,
    redirect_defaults=False,
)


class App:
    """The application that answers from one store.

    Args:
        store: The store that computes and keeps answers.
        files: The files of the page.
        policy: Who may ask; None inside a server that decides that itself.
        captures: What records running programs; None where nothing does.
        program: The program's files; None where they are not shown.
        packed: Whether to compress answers for clients that accept it: not worth it
            between programs of one machine.
    """

    def __init__(
        self,
        store: Store,
        files: Mapping[str, File],
        *,
        policy: Policy | None = None,
        captures: Capturing | None = None,
        program: ProgramFiles | None = None,
        packed: bool = False,
    ) -> None:
        self.store = store
        self._salt = secrets.token_hex(8)
        self._files = files
        self._policy = policy
        self._captures = captures
        self._program = program
        self._packed = packed

    def __call__(
        self, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request; see PEP 3333."""
        request = Request(environ)
        response = self._answered(request)
        if self._packed:
            _pack(request, response)
        security.protect(response.headers)
        # The server that sends the answer adds the date.
        response.headers.remove("Date")
        response.headers.setdefault("Cache-Control", "no-store")
        return response(environ, start_response)

    def _answered(self, request: Request) -> Response:
        try:
            return self._dispatched(request)
        except StepscopeError as error:
            return _refusal(error)
        except HTTPException as error:
            return _no_route(error)
        except Exception:  # noqa: BLE001 - the edge: a defect must not end the server
            # The client gets nothing of the error but its number.
            number = secrets.token_hex(4)
            _LOG.exception("defect %s at %s", number, ascii(request.path))
            return _error(
                500,
                "defect",
                f"this is a defect of stepscope, number {number} in the server's log",
                id=number,
            )

    def _dispatched(self, request: Request) -> Response:
        if self._policy is not None:
            early = security.admit(self._policy, request)
            if early is not None:
                return early
        if len(request.query_string) > _LONGEST_QUERY:
            raise Refused(414, "too_large", "the address is too long")
        if (request.content_length or 0) > _LONGEST_BODY:
            raise Refused(413, "too_large", "no request needs so large a body")
        file = self._file(request)
        if file is not None:
            return file
        route, names = _MAP.bind_to_environ(request.environ).match()
        if route.changes:
            security.check_change(request)
        else:
            security.check_reader(request)
        asked = Asked(
            request,
            Parameters(request.args),
            self.store,
            self._salt,
            _AHEAD,
            self._captures,
            self._program,
        )
        answer: Response = route.answer(asked, **names)
        return answer

    def _file(self, request: Request) -> Response | None:
        if request.method not in ("GET", "HEAD"):
            return None
        return pages.answer(self._files, request.path.removeprefix("/"), request)


def _tool_question(asked: Asked, name: str) -> ToolQuestion:
    try:
        found = find_tool(name)
    except BadUsage as error:
        raise Refused(404, "unknown_tool", str(error)) from error
    hosts = asked.given.texts("hosts")
    given, default = asked.given.options(found), found.options()
    options = {key: it for key, it in given.items() if it != getattr(default, key)}
    return ToolQuestion(found, hosts, options)


def _table_question(asked: Asked, name: str, *, is_paged: bool = True) -> TableQuestion:
    given = asked.given
    return TableQuestion(
        table=given.text("table"),
        sort=given.text("sort"),
        descending=given.flag("descending"),
        holding=given.text("q") or "",
        offset=given.number("offset", default=0, most=_FURTHEST) if is_paged else 0,
        of=_tool_question(asked, name),
    )


def _about_a_tool(
    question: ToolQuestion, rows: int
) -> tuple[Hashable, Callable[[Opened], bytes]]:
    compute = partial(answers.tool, asked=question, rows=rows)
    return ("tool", rows, _key(question)), compute


def _key(question: ToolQuestion) -> Any:
    """Return a value that identifies the question."""
    return question.tool.name, question.hosts, repr(sorted(question.options.items()))


def _told(entry: Entry) -> Plain:
    return {
        "id": entry.id,
        "name": entry.run.name,
        "recorded_unix_ms": int(entry.run.unix_s * _SECONDS_TO_MS),
        "hosts": [host.host for host in entry.run.hosts],
        "bytes": entry.size_bytes,
        "format": _format(entry),
        "frameworks": plain(entry.frameworks),
        "state": entry.state,
        "reason": entry.reason,
        "version": entry.version,
    }


def _format(entry: Entry) -> str:
    """Name the format of a run by its files' names."""
    names = [path.name for host in entry.run.hosts for path in host.paths]
    if all(".sqlite" in name for name in names):
        return "Nsight Systems"
    return "Kineto" if all(".json" in name for name in names) else "XSpace"


def _described(tool: Tool) -> Plain:
    return {
        "name": tool.name,
        "aliases": list(tool.aliases),
        "title": tool.title,
        "options": [
            {
                "name": field.name,
                "type": _type_name(field.type),
                "default": plain(field.default),
            }
            for field in msgspec.structs.fields(tool.options)
            if field.name not in HIDDEN_OPTIONS
        ],
    }


def _type_name(declared: object) -> str:
    """Return the JSON type of an option; null is allowed where it is the default."""
    schema = msgspec.json.schema(declared)
    kinds = [one.get("type") for one in schema.get("anyOf", [schema])]
    return next(str(kind) for kind in kinds if kind != "null")


def _refusal(error: StepscopeError) -> Response:
    if isinstance(error, Refused):
        response = _error(error.status, error.code, str(error))
        if error.retry_after_s is not None:
            response.headers["Retry-After"] = str(error.retry_after_s)
        return response
    if isinstance(error, BadUsage):
        return _error(400, "bad_parameter", str(error))
    return _error(422, "unreadable", str(error))


def _no_route(error: HTTPException) -> Response:
    if isinstance(error, MethodNotAllowed):
        response = _error(405, "bad_method", "this address has no such method")
        response.headers["Allow"] = ", ".join(sorted(error.valid_methods or ()))
        return response
    if isinstance(error, NotFound):
        return _error(404, "not_found", "there is nothing at this address")
    return _error(error.code or 400, "bad_parameter", "the request is broken")


def _error(status_code: int, code: str, message: str, **more: str) -> Response:
    # Paths in a message may hold bytes that are not text.
    text = message.encode("utf-8", "backslashreplace").decode()
    told: Plain = {"error": {"code": code, "message": text, **more}}
    response = json_response(told)
    response.status_code = status_code
    response.headers["Cache-Control"] = "no-store"
    return response


def _pack(request: Request, response: Response) -> None:
    content = response.get_data()
    if (
        response.status_code != 200
        or len(content) < _WORTH_PACKING
        or not request.accept_encodings.quality("gzip")
    ):
        return
    response.set_data(gzip.compress(content, compresslevel=1, mtime=0))
    response.headers["Content-Encoding"] = "gzip"
    response.headers.add("Vary", "Accept-Encoding")


#: Questions of the pages after the first one: the slow ones first, then in the order of
#: the navigation.
_AHEAD: Final = tuple(
    Question(name, *_about_a_tool(ToolQuestion(find_tool(name), (), {}), _ROWS))
    for name in (
        "input_pipeline_analyzer",
        "framework_op_stats",
        "kernel_stats",
        "roofline_model",
        "tf_data_bottleneck_analysis",
        "model_views",
        "inference_profile",
        "memory_profile",
        "pod_viewer",
    )
)
