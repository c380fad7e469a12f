"""Which ops are meant by a name or a scope."""

from __future__ import annotations

import pytest
from tests.support.traces import blueprint
from tests.support.traces.ops import detail

from stepscope.errors import BadUsage


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"op": "matmul"},
            "there is no op 'matmul'; the nearest: model/dense/MatMul, ",
        ),
        ({"op": "model/dense/MatMull"}, "the nearest: model/dense/MatMul, "),
        ({"op": "zzz"}, "no known name is similar"),
        ({"op": "…MatMul"}, "short for 2 names: model/dense/MatMul, model/dense_1/"),
        ({"scope": "mod"}, "no op has the scope 'mod'; the nearest: model"),
        ({"scope": ""}, "no op has the scope ''"),
        ({"op": "a", "scope": "b"}, "exclude each other"),
    ],
    ids=str,
)
def test_an_unknown_op_names_the_nearest(options: dict[str, str], said: str) -> None:
    with pytest.raises(BadUsage) as raised:
        detail(blueprint.profile(blueprint.a1()), **options)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ({"op": "model/…_1/MatMul"}, 8),
        ({"scope": "model"}, 16),
        ({"scope": "model/"}, 16),
        ({"scope": "model/dense"}, 8),
        ({"scope": "allreduce"}, 8),
    ],
    ids=str,
)
def test_a_name_may_be_cut_and_a_scope_is_a_path(
    options: dict[str, str], calls: int
) -> None:
    assert detail(blueprint.profile(blueprint.a1()), **options).call_count == calls


def test_namespaces_are_scopes_too() -> None:
    lines = [("main", f"Iterator::{name}", at, 1) for at, name in enumerate("XYZ")]
    lines.append(("main", "Iter:Iter", 50, 5))
    profile = blueprint.profile(blueprint.trace(lines))
    assert detail(profile, scope="Iterator").call_count == 3
    assert detail(profile, scope="Iterator::").call_count == 3
    assert detail(profile, scope="Iter").call_count == 1
