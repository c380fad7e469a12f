"""The application as a plugin of TensorBoard.

TensorBoard finds the plugin by the entry point `tensorboard_plugins`, decides who may
read, and calls the application below `/data/plugin/stepscope/`. Only TensorBoard
imports this module.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from tensorboard.plugins import base_plugin

from stepscope.errors import BadInput
from stepscope.serve.app import App
from stepscope.serve.pages import page_files
from stepscope.serve.runs.source import open_source
from stepscope.serve.runs.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_LOG: Final = logging.getLogger(__name__)
#: Name of the plugin: TensorBoard needs unique names, and `profile` is taken.
_NAME: Final = "stepscope"
_PREFIX: Final = f"/data/plugin/{_NAME}"


class StepscopePlugin(base_plugin.TBPlugin):  # type: ignore[misc]  # it ships no types
    """Plugin that shows the profiles below TensorBoard's log directory."""

    plugin_name = _NAME

    # The type is Any, because the context's fields depend on TensorBoard's version.
    def __init__(self, context: Any) -> None:
        self._logdir: str = context.logdir or ""
        self._app: App | None = None
        self._lock = threading.Lock()

    def get_plugin_apps(self) -> dict[str, WSGIApplication]:
        """Return one application for every address below the address of the plugin."""
        return {"/*": self._serve_request}

    def is_active(self) -> bool:
        """Return whether the log directory has a run to show."""
        app = self._make_app()
        return app is not None and bool(app.store.current_listing().entries)

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """Return the module that TensorBoard loads into the frame of the plugin."""
        return base_plugin.FrontendMetadata(
            es_module_path="/plugin.js", tab_name="stepscope"
        )

    def _serve_request(
        self, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        app = self._make_app()
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
        before, prefix, after = environ.get("PATH_INFO", "").partition(_PREFIX)
        if prefix:
            # In WSGI the prefix must be in SCRIPT_NAME, not in PATH_INFO.
            script = environ.get("SCRIPT_NAME", "") + before + prefix
            environ = {**environ, "SCRIPT_NAME": script, "PATH_INFO": after}
        return app(environ, start_response)

    def _make_app(self) -> App | None:
        """Return the application; None while the log directory does not exist."""
        with self._lock:
            if self._app is None:
                try:
                    store = Store(open_source(self._logdir))
                except BadInput as error:
                    _LOG.debug("no log directory yet: %s", error)
                    return None
                self._app = App(store, page_files())
            return self._app
