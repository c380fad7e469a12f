"""Routes by which the page records running programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.serve.errors import Refused
from stepscope.serve.parameters import Query, Route, bad_parameter, json_response
from stepscope.serve.recorder import Settings

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

    from stepscope.reporting.plain import Plain


def answer_captures(query: Query) -> Response:
    """Answer with the programs that may be recorded, and a recording's progress."""
    query.given.check_all_read()
    captures = query.captures
    none: Plain = {"addresses": [], "job": None}
    return json_response(none if captures is None else captures.progress_record())


def begin_capture(query: Query) -> Response:
    """Start recording programs whose addresses the server was started with."""
    params = query.given
    numbers = {
        name: params.read_exact(name)
        for name in Settings.__struct_fields__
        if name != "addresses"
    }
    options = {name: value for name, value in numbers.items() if value is not None}
    addresses = params.read_texts("address")
    params.check_all_read()
    if query.captures is None:
        raise Refused(
            403,
            "refused",
            "this server cannot record. Start it with --capture HOST:PORT",
        )
    try:
        wanted = msgspec.convert({"addresses": addresses, **options}, Settings)
    except msgspec.ValidationError as error:
        raise bad_parameter(str(error)) from error
    query.captures.begin_recording(wanted)
    response = json_response(query.captures.progress_record())
    response.status_code = 202
    return response


ROUTES: Final = (
    Route("/data/captures", answer_captures),
    Route("/data/capture", begin_capture, changes=True),
)
