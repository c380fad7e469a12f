"""The WSGI application: a table of routes, and the HTTP statuses of errors.

The application keeps no state between requests; the store keeps it. The application
does not depend on a URL prefix: it can answer at `/` or inside another server.
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
from stepscope.reporting.plain import plain
from stepscope.serve import capturing, pages, security, timeline_routes
from stepscope.serve.errors import Refused
from stepscope.serve.parameters import (
    COLUMNS,
    HIDDEN_OPTIONS,
    JSON,
    Parameters,
    Query,
    Route,
    bad_parameter,
    json_response,
)
from stepscope.serve.runs import answers
from stepscope.serve.runs.answers import SCHEMA, TableQuestion, ToolQuestion
from stepscope.serve.runs.program_files import ProgramText
from stepscope.serve.runs.store import Lane, Question

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from stepscope.reporting.plain import Plain
    from stepscope.serve.pages import File
    from stepscope.serve.recorder import Capturing
    from stepscope.serve.runs.opened import Opened
    from stepscope.serve.runs.program_files import ProgramFiles
    from stepscope.serve.runs.store import Entry, Store
    from stepscope.serve.security import Policy

_LOG: Final = logging.getLogger(__name__)
#: Number of rows of a table in a tool's answer: default and maximum.
_DEFAULT_ROWS: Final = 2000
_MAX_ROWS: Final = 20_000
#: Default number of rows of one page of a long table.
_PAGE_ROWS: Final = 200
#: A row number that is beyond the end of every table.
_MAX_ROW: Final = 2**53
_NO_TEXT: Final = (
    "`stepscope serve LOGDIR --source DIR` shows the text of program files in DIR; "
    "TensorBoard shows no program text."
)
_MAX_QUERY_BYTES: Final = 16 * 2**10
_MAX_BODY_BYTES: Final = 64 * 2**10
#: Minimum size of an answer, in bytes, that is compressed.
_MIN_BYTES_TO_COMPRESS: Final = 2**11
_SECONDS_TO_MS: Final = 1000


def answer_status(query: Query) -> Response:
    """Answer with the current computation's progress and the tag of the run list."""
    query.given.check_all_read()
    work = query.store.work
    progress: Plain = None
    if work is not None:
        elapsed = time.monotonic() - work.since_s
        progress = {
            "run": work.run,
            "what": work.what,
            "done": max(work.done, 0),
            "of": work.of,
            "elapsed_ms": int(elapsed * _SECONDS_TO_MS),
        }
    tag = query.store.current_listing().tag
    return json_response(
        {"schema": SCHEMA, "version": __version__, "runs": tag, "work": progress}
    )


def answer_runs(query: Query) -> Response:
    """Answer with every run of the log directory, newest first."""
    query.given.check_all_read()
    store = query.store
    listing = store.current_listing()
    empty: Plain = None
    if not listing.entries:
        empty = {
            "reason": listing.problem or f"{store.source.name} contains no profile.",
            "remedy": "Record a profile below the log directory, as "
            "plugins/profile/<run>/<host>.xplane.pb or <run>/<worker>.pt.trace.json; "
            "this page then lists the profile.",
        }
    response = json_response(
        {
            "schema": SCHEMA,
            "log_directory": store.source.name,
            "runs": [_run_record(entry) for entry in listing.entries],
            "refused": [{"name": name, "reason": why} for name, why in listing.refused],
            "empty": empty,
        }
    )
    response.headers["Cache-Control"] = "private, no-cache"
    response.set_etag(listing.tag)
    response.make_conditional(query.request)
    return response


def answer_tools(query: Query) -> Response:
    """Answer with all tools and their options."""
    query.given.check_all_read()
    return json_response(
        {
            "schema": SCHEMA,
            "tools": [
                {
                    "name": tool.name,
                    "aliases": list(tool.aliases),
                    "title": tool.title,
                    "options": [
                        {
                            "name": field.name,
                            "type": _json_type_name(field.type),
                            "default": plain(field.default),
                        }
                        for field in msgspec.structs.fields(tool.options)
                        if field.name not in HIDDEN_OPTIONS
                    ],
                }
                for tool in TOOLS
            ],
        }
    )


def answer_profile(query: Query) -> Response:
    """Answer with the hosts and devices of a run, and doubts about its recording."""
    return _answer_about_hosts(query, answers.write_profile)


def answer_tool(query: Query, name: str) -> Response:
    """Answer with the envelope of a tool's result."""
    rows = query.given.read_limited("rows", default=_DEFAULT_ROWS, highest=_MAX_ROWS)
    return query.answer_from_store(*_about_a_tool(_tool_question(query, name), rows))


def answer_table(query: Query, name: str) -> Response:
    """Answer with a page of a table, as rows."""
    limit = query.given.read_limited("limit", default=_PAGE_ROWS, highest=_MAX_ROWS)
    question = _table_question(query, name)._replace(limit=limit)
    return _answer_table(query, answers.write_table, question, JSON)


def answer_frame(query: Query, name: str) -> Response:
    """Answer with a table, or some rows of it, as columns."""
    limit = query.given.read_limited("limit", default=_MAX_ROW, highest=_MAX_ROW)
    question = _table_question(query, name)._replace(limit=limit)
    return _answer_table(query, answers.write_frame, question, COLUMNS)


def answer_csv(query: Query, name: str) -> Response:
    """Answer with a table as a CSV file."""
    question = _table_question(query, name, is_paged=False)
    reply = _answer_table(query, answers.write_csv, question, "text/csv; charset=utf-8")
    title = f"{question.of.tool.name}-{question.table or 'table'}"
    file = "".join(c if c.isascii() and c.isalnum() else "_" for c in title)
    reply.headers["Content-Disposition"] = f'attachment; filename="{file}.csv"'
    return reply


def answer_comparison(query: Query) -> Response:
    """Answer with the comparison of two runs."""
    params, store = query.given, query.store
    run, base = params.read_text("run"), params.read_text("base")
    same_work = params.read_flag("same_work")
    params.check_all_read()
    if base is None:
        raise bad_parameter("base: give the id of the run to compare with")
    new, old = store.find_entry(run), store.find_entry(base)
    if new.id == old.id:
        raise bad_parameter(f"base: {old.run.name} cannot be compared with itself")
    # Measure the new run first, because only one profile is open at a time.
    measured = store.kept_answer(new, ("measured",), answers.write_measured_run)
    return query.answer_from_store(
        ("compare", new.id, new.version, same_work),
        lambda opened: answers.write_comparison(opened, measured, same_work=same_work),
        run=base,
    )


def explain_interval(query: Query) -> Response:
    """Answer with what the time of an interval is attributed to."""
    args = query.given
    host, device = args.read_text("host"), args.read_exact("device")
    at_ps, begin, end = (args.read_exact(f"{name}_ps") for name in ("at", "from", "to"))
    wanted: int | tuple[int, int]
    if at_ps is not None and begin is None and end is None:
        wanted = at_ps
    elif at_ps is None and begin is not None and end is not None:
        wanted = (begin, end)
    else:
        raise bad_parameter("give either at_ps, or both from_ps and to_ps")
    return query.answer_in_lane(
        ("explain", host, wanted, device),
        lambda opened: answers.write_explanation(opened, host, wanted, device=device),
        lane=Lane.SEARCHING,
    )


def answer_findings(query: Query) -> Response:
    """Answer with all findings."""
    return _answer_about_hosts(query, answers.write_findings)


def answer_report(query: Query) -> Response:
    """Answer with the report of a run."""
    form = query.given.read_text("format") or answers.REPORT_FORMATS[0]
    if form not in answers.REPORT_FORMATS:
        known = ", ".join(answers.REPORT_FORMATS)
        raise bad_parameter(f"format: must be one of {known}")
    return _answer_about_hosts(
        query,
        partial(answers.write_report, form=form),
        form,
        media_type=JSON if form == "json" else "text/plain; charset=utf-8",
        stages=len(TOOLS) + 1,
    )


def answer_source(query: Query) -> Response:
    """Answer with the text of a program file, or why the text is not shown."""
    params, store = query.given, query.store
    run, hosts, file = (
        params.read_text("run"),
        params.read_texts("hosts"),
        params.read_text("file"),
    )
    params.check_all_read()
    entry = store.find_entry(run)
    named = store.kept_answer(
        entry,
        ("source", hosts),
        lambda opened: answers.write_program_files(opened, hosts),
    )
    if file is None or file not in msgspec.json.decode(named):
        raise Refused(
            404, "unknown_file", "file: no file of this name has a measured line"
        )
    text = ProgramText(reason=_NO_TEXT)
    if query.program is not None:
        text = query.program.find_text(file, recorded_unix_s=entry.run.unix_s)
    return json_response({"schema": SCHEMA, "file": file, **msgspec.to_builtins(text)})


def reload_runs(query: Query) -> Response:
    """List the log directory again and drop all kept answers."""
    query.given.check_all_read()
    query.store.forget_everything()
    tag = query.store.current_listing(now=True).tag
    return json_response({"schema": SCHEMA, "runs": tag})


ROUTES: Final = (
    Route("/data/status", answer_status),
    Route("/data/runs", answer_runs),
    Route("/data/tools", answer_tools),
    Route("/data/profile", answer_profile),
    Route("/data/tool/<name>", answer_tool),
    Route("/data/table/<name>", answer_table),
    Route("/data/frame/<name>", answer_frame),
    Route("/data/csv/<name>", answer_csv),
    Route("/data/compare", answer_comparison),
    Route("/data/explain", explain_interval),
    Route("/data/findings", answer_findings),
    Route("/data/report", answer_report),
    Route("/data/source", answer_source),
    Route("/data/reload", reload_runs, changes=True),
    *capturing.ROUTES,
    *timeline_routes.ROUTES,
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
    """The WSGI application on one store.

    If there is no policy, the server around the application decides who may send
    requests. `packed` compresses answers, which is useless for clients on this machine.
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
        """Answer one request (see PEP 3333)."""
        request = Request(environ)
        try:
            response = self._dispatch_request(request)
        except (StepscopeError, HTTPException) as error:
            response = _error_response(error)
        except Exception:  # noqa: BLE001 - the edge: a defect must not end the server
            # The client gets only a number by which the error can be found in the log.
            number = secrets.token_hex(4)
            _LOG.exception("defect %s at %s", number, ascii(request.path))
            text = f"this is a defect of stepscope, number {number} in the server's log"
            response = _json_error(500, "defect", text, id=number)
        content = response.get_data() if self._packed else b""
        if (
            len(content) >= _MIN_BYTES_TO_COMPRESS
            and response.status_code == 200
            and request.accept_encodings.quality("gzip")
        ):
            response.set_data(gzip.compress(content, compresslevel=1, mtime=0))
            response.headers["Content-Encoding"] = "gzip"
            response.headers.add("Vary", "Accept-Encoding")
        security.add_headers(response.headers)
        # The server around the application adds the date.
        response.headers.remove("Date")
        response.headers.setdefault("Cache-Control", "no-store")
        return response(environ, start_response)

    def _dispatch_request(self, request: Request) -> Response:
        if self._policy is not None:
            early = security.admit_request(self._policy, request)
            if early is not None:
                return early
        if len(request.query_string) > _MAX_QUERY_BYTES:
            raise Refused(414, "too_large", "the address is too long")
        if (request.content_length or 0) > _MAX_BODY_BYTES:
            raise Refused(413, "too_large", "the body of the request is too large")
        if request.method in ("GET", "HEAD"):
            path = request.path.removeprefix("/")
            file = pages.answer_file(self._files, path, request)
            if file is not None:
                return file
        route, names = _MAP.bind_to_environ(request.environ).match()
        if route.changes:
            security.check_change(request)
        else:
            security.check_reader(request)
        query = Query(
            request,
            Parameters(request.args),
            self.store,
            self._salt,
            _AHEAD,
            self._captures,
            self._program,
        )
        answer: Response = route.answer(query, **names)
        return answer


def _answer_about_hosts(
    query: Query,
    compute: Callable[[Opened, tuple[str, ...]], bytes],
    *choices: str,
    media_type: str = JSON,
    stages: int = 1,
) -> Response:
    hosts = query.given.read_texts("hosts")
    return query.answer_from_store(
        (query.request.path, *choices, hosts),
        lambda opened: compute(opened, hosts),
        media_type=media_type,
        stages=stages,
    )


def _answer_table(
    query: Query,
    compute: Callable[[Opened, TableQuestion], bytes],
    question: TableQuestion,
    media_type: str,
) -> Response:
    return query.answer_from_store(
        (media_type, question._replace(of=_question_key(question.of))),
        lambda opened: compute(opened, question),
        media_type=media_type,
    )


def _tool_question(query: Query, name: str) -> ToolQuestion:
    try:
        tool = find_tool(name)
    except BadUsage as error:
        raise Refused(404, "unknown_tool", str(error)) from error
    hosts = query.given.read_texts("hosts")
    options, default = query.given.read_options(tool), tool.options()
    changed = {key: opt for key, opt in options.items() if opt != getattr(default, key)}
    return ToolQuestion(tool, hosts, changed)


def _table_question(query: Query, name: str, *, is_paged: bool = True) -> TableQuestion:
    params = query.given
    return TableQuestion(
        table=params.read_text("table"),
        sort=params.read_text("sort"),
        descending=params.read_flag("descending"),
        holding=params.read_text("q") or "",
        offset=params.read_limited("offset", default=0, highest=_MAX_ROW)
        if is_paged
        else 0,
        of=_tool_question(query, name),
    )


def _about_a_tool(
    question: ToolQuestion, rows: int
) -> tuple[Hashable, Callable[[Opened], bytes]]:
    compute = partial(answers.write_tool, query=question, rows=rows)
    return ("tool", rows, _question_key(question)), compute


def _question_key(question: ToolQuestion) -> Any:
    return question.tool.name, question.hosts, repr(sorted(question.options.items()))


#: Text in the names of a run's files → what the files are; other files are XSpace.
_FORMATS: Final = {
    ".json": "Kineto",
    ".sqlite": "Nsight Systems",
    ".pickle": "Memory snapshot",
    ".pkl": "Memory snapshot",
}


def _run_record(entry: Entry) -> Plain:
    names = [path.name for host in entry.run.hosts for path in host.paths]
    kind = next(
        (
            kind
            for text, kind in _FORMATS.items()
            if all(text in name for name in names)
        ),
        "XSpace",
    )
    return {
        "id": entry.id,
        "name": entry.run.name,
        "recorded_unix_ms": int(entry.run.unix_s * _SECONDS_TO_MS),
        "hosts": [host.host for host in entry.run.hosts],
        "bytes": entry.size_bytes,
        "format": kind,
        **{name: plain(value) for name, value in entry.summary._asdict().items()},
        "state": entry.state,
        "reason": entry.reason,
        "version": entry.version,
    }


def _json_type_name(declared: object) -> str:
    schema = msgspec.json.schema(declared)
    kinds = [variant.get("type") for variant in schema.get("anyOf", [schema])]
    return next(str(kind) for kind in kinds if kind != "null")


def _error_response(error: StepscopeError | HTTPException) -> Response:
    match error:
        case Refused():
            response = _json_error(error.status, error.code, str(error))
            if error.retry_after_s is not None:
                response.headers["Retry-After"] = str(error.retry_after_s)
        case BadUsage():
            response = _json_error(400, "bad_parameter", str(error))
        case StepscopeError():
            response = _json_error(422, "unreadable", str(error))
        case MethodNotAllowed():
            response = _json_error(
                405, "bad_method", "this address does not support this method"
            )
            response.headers["Allow"] = ", ".join(sorted(error.valid_methods or ()))
        case NotFound():
            response = _json_error(404, "not_found", "this address does not exist")
        case _:
            code = error.code or 400
            response = _json_error(code, "bad_parameter", "the request is malformed")
    return response


def _json_error(status_code: int, code: str, message: str, **fields: str) -> Response:
    # Paths in an error message may contain bytes that are not UTF-8.
    text = message.encode("utf-8", "backslashreplace").decode()
    document: Plain = {"error": {"code": code, "message": text, **fields}}
    response = json_response(document)
    response.status_code = status_code
    response.headers["Cache-Control"] = "no-store"
    return response


#: Questions that the page is likely to ask next: slow tools first, then in menu order.
_AHEAD: Final = tuple(
    Question(name, *_about_a_tool(ToolQuestion(find_tool(name), (), {}), _DEFAULT_ROWS))
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
