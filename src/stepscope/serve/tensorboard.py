"""The application as a plugin of TensorBoard.

TensorBoard finds the plugin by the entry point `tensorboard_plugins`, decides itself
who may read, and calls the application below `/data/plugin/stepscope/`. Only
TensorBoard imports this module.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from tensorboard.plugins import base_plugin

from stepscope.errors import BadInput
from stepscope.serve.app import App
from stepscope.serve.pages import page_files
from stepscope.serve.runs.source import source_of
from stepscope.serve.runs.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_LOG: Final = logging.getLogger(__name__)
#: Two plugins of one name break TensorBoard, and `profile` is taken.
_NAME: Final = "stepscope"
_PREFIX: Final = f"/data/plugin/{_NAME}"


class StepscopePlugin(base_plugin.TBPlugin):  # type: ignore[misc]  # it ships no types
    """The profiles below TensorBoard's log directory."""

    plugin_name = _NAME

    # The fields of TensorBoard's context depend on its version.
    def __init__(self, context: Any) -> None:
        self._logdir: str = context.logdir or ""
        self._app: App | None = None
        self._lock = threading.Lock()

    def get_plugin_apps(self) -> dict[str, WSGIApplication]:
        """Return one application for every address below the plugin's own."""
        return {"/*": self._serve}

    def is_active(self) -> bool:
        """Return whether there is a run to be shown."""
        app = self._made()
        return app is not None and bool(app.store.listing().entries)

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """Return the module that TensorBoard loads in the plugin's frame."""
        return base_plugin.FrontendMetadata(
            es_module_path="/plugin.js", tab_name="stepscope"
        )

    def _serve(
        self, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        app = self._made()
        if app is None:
            body = b"TensorBoard's log directory cannot be read.\n"
            start_response(
                "404 Not Found",
                [
                    ("Content-Type", "text/plain; charset=utf-8"),
                    ("Content-Length", str(len(body))),
                    ("X-Content-Type-Options", "nosniff"),
                ],
            )
            return [body]
        return app(_below_prefix(environ), start_response)

    def _made(self) -> App | None:
        """Return the application; None while there is no log directory yet."""
        with self._lock:
            if self._app is None:
                try:
                    store = Store(source_of(self._logdir))
                except BadInput as error:
                    _LOG.debug("no log directory yet: %s", error)
                    return None
                self._app = App(store, page_files())
            return self._app


def _below_prefix(environ: WSGIEnvironment) -> WSGIEnvironment:
    """Move the plugin's prefix from the path of a request to the script's name."""
    path = environ.get("PATH_INFO", "")
    before, found, after = path.partition(_PREFIX)
    if not found:
        return environ
    script = environ.get("SCRIPT_NAME", "") + before + found
    return {**environ, "SCRIPT_NAME": script, "PATH_INFO": after}
