"""Steps of JAX: a step ends when a call of a jitted function returns."""

from __future__ import annotations

import functools
import inspect
import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from stepscope.capture.base.functions import replace_function
from stepscope.capture.launching.harmless import harmless
from stepscope.errors import NO_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stepscope.capture.launching.counting import StepCounter, StepListener

#: Module prefixes of JAX's own jitted functions, which are not steps. Functions that
#: JAX generates for a gradient have no function name.
_LIBRARY: Final = ("jax.", "jaxlib.")
#: Module of the functions with which `jax.pmap` wraps the program's functions.
_PMAP: Final = "jax._src.pmap"
#: Number of first calls of a function whose arguments are compared with its last
#: result. If an argument matched, `_FOLLOWED_CALLS` calls are compared.
_EXAMINED_CALLS: Final = 4
_FOLLOWED_CALLS: Final = 2000
#: Maximum number of arrays per result that are compared until one matches.
_ARRAYS: Final = 256
#: Maximum number of array positions per result that are compared after a match.
_MAX_POSITIONS: Final = 8
#: Position of an array in a result, and a weak reference to the array.
_Kept: TypeAlias = "tuple[int, Callable[[], object]]"


def listen_to_steps(counter: StepCounter[StepListener]) -> Callable[[], None]:
    """Count the calls of every jitted function; return a stop function.

    JAX has two call paths. The compiled path ends with the hook that JAX uses for its
    NaN check, so a listener on this hook keeps the path compiled. The Python path, for
    calls that compile or have side effects, ends in a Python function.
    """
    import jax  # noqa: PLC0415 - the program's framework

    carried = _Carried(jax.tree_util.tree_leaves)

    @harmless(counter.window.abandon)
    def call_returned(function: Any, arguments: Any, result: Any) -> None:
        module, name = _function_name(function)
        if module.startswith(_LIBRARY):
            return
        called = (module, name)
        counter.call_ended(
            f"calls of {name} (JAX)",
            called,
            carries=carried.comes_back(called, arguments, result),
            settle=lambda: jax.block_until_ready(result),
        )

    undo = ExitStack()
    undo.callback(_hook_compiled_calls(call_returned))
    undo.callback(_hook_other_calls(call_returned))
    return undo.close


def _function_name(function: Any) -> tuple[str, str]:
    """Return the module and name of the program's function that was compiled.

    `pmap` compiles a wrapper around the program's function. If the function cannot be
    found inside the wrapper, its name is "a function of pmap".
    """
    module = getattr(function, "__module__", None) or ""
    if module != _PMAP:
        return module, getattr(function, "__qualname__", "a jitted function")
    inside = inspect.unwrap(function)
    names = getattr(getattr(inside, "__code__", None), "co_freevars", ())
    cells = dict(zip(names, getattr(inside, "__closure__", None) or (), strict=False))
    mapped = getattr(getattr(cells.get("fun"), "cell_contents", None), "f", None)
    return (
        getattr(mapped, "__module__", None) or "",
        getattr(mapped, "__qualname__", "a function of pmap"),
    )


def _hook_compiled_calls(
    returned: Callable[[Any, Any, Any], object],
) -> Callable[[], None]:
    from jax._src.api import _post_hook_state as own  # noqa: PLC0415 - the program's framework
    from jax._src.lib import jax_jit  # noqa: PLC0415 - the program's framework

    def after_call(function: Any, args: Any, kwargs: Any, result: Any) -> None:
        nan_check = own.value
        if nan_check is not None:
            nan_check(function, args, kwargs, result)
        returned(function, (args, kwargs), result)

    # JAX changes its own hook setting at times, so a separate setting is used.
    jax_jit.set_post_hook_state(
        type(own)("stepscope_post_hook", after_call, include_in_jit_key=False)
    )
    return lambda: jax_jit.set_post_hook_state(own)


def _hook_other_calls(
    returned: Callable[[Any, Any, Any], object],
) -> Callable[[], None]:
    from jax._src import core, pjit  # noqa: PLC0415 - the program's framework

    run = getattr(pjit, "_run_python_pjit", None)
    if run is None:
        # In other JAX versions, calls that compile (the first call) are not counted.
        return lambda: None

    @functools.wraps(run)
    def call_and_hear(p: Any, flat: Any, function: Any, args: Any, kwargs: Any) -> Any:
        with NO_FRAME:
            result = run(p, flat, function, args, kwargs)
        # A call inside a function that is being traced is not executed.
        if core.trace_state_clean():
            returned(function, (args, kwargs), result[0])
        return result

    return replace_function(pjit, "_run_python_pjit", call_and_hear)


class _Carried:
    """Detects functions that receive their own last result, for example a state."""

    def __init__(self, leaves_of: Callable[[Any], Iterable[Any]]) -> None:
        self._leaves_of = leaves_of
        self._examined: dict[object, int] = {}
        #: Function → positions of arrays in its result that became arguments again.
        self._came_back: dict[object, frozenset[int]] = {}
        self._returned: dict[object, dict[int, _Kept]] = {}

    def comes_back(self, called: object, arguments: Any, result: Any) -> bool:
        examined = self._examined.get(called, 0)
        comes_back = called in self._came_back
        if examined >= (_FOLLOWED_CALLS if comes_back else _EXAMINED_CALLS):
            return comes_back
        self._examined[called] = examined + 1
        before = self._returned.pop(called, {})
        # Once the positions are known, one matching array is enough.
        wanted = 1 if comes_back else _MAX_POSITIONS
        returned: list[int] = []
        for leaf in self._leaves_of(arguments) if before else ():
            kept = before.get(id(leaf))
            if kept is not None and kept[1]() is leaf:
                returned.append(kept[0])
                if len(returned) == wanted:
                    break
        if returned and not comes_back:
            self._came_back[called] = frozenset(returned)
        if examined + 1 < _EXAMINED_CALLS or called in self._came_back:
            leaves = list(self._leaves_of(result))
            positions = self._came_back.get(called, range(min(len(leaves), _ARRAYS)))
            # Weak references do not keep the program's arrays alive.
            self._returned[called] = {
                id(leaves[position]): (position, weakref.ref(leaves[position]))
                for position in positions
                if position < len(leaves) and type(leaves[position]).__weakrefoffset__
            }
        return bool(returned)
