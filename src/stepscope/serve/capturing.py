"""The routes by which the page has running programs recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.serve.errors import Refused
from stepscope.serve.parameters import Asked, Route, json_response
from stepscope.serve.recorder import Wanted

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

    from stepscope.report.plain import Plain


def state(asked: Asked) -> Response:
    """Answer with what may be recorded, and how far a recording is."""
    asked.given.end()
    found = asked.captures
    none: Plain = {"addresses": [], "job": None}
    return json_response(none if found is None else found.told())


def begin(asked: Asked) -> Response:
    """Begin a recording of programs that the server was started with."""
    given = asked.given
    numbers = {
        name: given.whole(name)
        for name in Wanted.__struct_fields__
        if name != "addresses"
    }
    said = {name: value for name, value in numbers.items() if value is not None}
    addresses = given.texts("address")
    given.end()
    if asked.captures is None:
        raise Refused(
            403,
            "refused",
            "this server records nothing. Start it with --capture HOST:PORT",
        )
    try:
        wanted = msgspec.convert({"addresses": addresses, **said}, Wanted)
    except msgspec.ValidationError as error:
        raise Refused(400, "bad_parameter", str(error)) from error
    asked.captures.begin(wanted)
    response = json_response(asked.captures.told())
    response.status_code = 202
    return response


ROUTES: Final = (
    Route("/data/captures", state),
    Route("/data/capture", begin, changes=True),
)
