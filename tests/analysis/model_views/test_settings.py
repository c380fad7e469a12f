"""The options of `model_views`, with the meaning they have in the older API."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict
from tests.support.traces import blueprint

from stepscope.analysis import model_views
from stepscope.analysis.model_views import ModelViewsResult, Options
from stepscope.analysis.model_views.settings import (
    PRESETS,
    SELECTABLE,
    Settings,
    decide_settings,
)
from stepscope.analysis.tools import analyse
from stepscope.cli.tool_options import chosen_options
from stepscope.errors import BadUsage


def scopes(**options: Any) -> list[tuple[str, int, float]]:
    """Name, depth and total of the nodes that are shown, in order."""
    profile = blueprint.profile(TRACE)
    result = model_views.analyse(profile, Options(**options))
    assert isinstance(result, ModelViewsResult)
    return result.scope.select("name", "depth", "total_us").rows()


def names(**options: Any) -> list[str]:
    return [name for name, *_ in scopes(**options)]


TRACE = blueprint.trace(
    [
        ("main", "model/dense/MatMul:MatMul", 0, 50),
        ("main", "model/dense/Relu:Relu", 50, 10),
        ("main", "model/head/MatMul:MatMul", 60, 20),
        ("main", "model/head/MatMul:MatMul", 80, 10),
        ("main", "adam/Mul:Mul", 90, 5),
    ]
)
EVERYTHING = [
    ("model", 1, 90.0),
    ("model/dense", 2, 60.0),
    ("model/dense/MatMul", 3, 50.0),
    ("model/dense/Relu", 3, 10.0),
    ("model/head", 2, 30.0),
    ("model/head/MatMul", 3, 30.0),
    ("adam", 1, 5.0),
    ("adam/Mul", 2, 5.0),
]


def test_everything_is_shown_unless_told_otherwise() -> None:
    assert scopes() == EVERYTHING


def test_depth_counts_from_the_roots() -> None:
    assert scopes(max_depth=1) == [("model", 1, 90.0), ("adam", 1, 5.0)]
    assert names(max_depth=2) == [
        *("model", "model/dense", "model/head", "adam", "adam/Mul")
    ]


def test_thresholds_are_about_totals() -> None:
    assert names(min_micros=30) == [
        *("model", "model/dense", "model/dense/MatMul"),
        *("model/head", "model/head/MatMul"),
    ]
    assert names(min_occurrence=2) == [
        *("model", "model/dense", "model/head", "model/head/MatMul")
    ]
    # Nothing was recorded that could reach these.
    for option in ("min_bytes", "min_params", "min_float_ops"):
        assert names(**{option: 1}) == []


def test_start_makes_roots_of_what_matches() -> None:
    assert scopes(start_name_regexes=("model/.*",)) == [
        ("model/dense", 1, 60.0),
        ("model/dense/MatMul", 2, 50.0),
        ("model/dense/Relu", 2, 10.0),
        ("model/head", 1, 30.0),
        ("model/head/MatMul", 2, 30.0),
    ]


def test_trim_takes_away_what_is_beneath_too() -> None:
    assert names(trim_name_regexes=("model/dense",)) == [
        *("model", "model/head", "model/head/MatMul", "adam", "adam/Mul")
    ]
    # The time is still the model's.
    assert scopes(trim_name_regexes=("model/dense",))[0] == ("model", 1, 90.0)


def test_hide_lets_what_is_beneath_move_up() -> None:
    profile = blueprint.profile(TRACE)
    result = model_views.analyse(profile, Options(hide_name_regexes=("model/dense",)))
    assert isinstance(result, ModelViewsResult)
    rows = result.scope.select("id", "parent", "name").rows()
    assert rows[:3] == [
        (0, None, "model"),
        (1, 0, "model/dense/MatMul"),
        (2, 0, "model/head"),
    ]


def test_show_is_for_whole_names() -> None:
    assert names(show_name_regexes=("model",)) == ["model"]
    assert names(show_name_regexes=(".*MatMul", "adam")) == [
        *("model/dense/MatMul", "model/head/MatMul", "adam")
    ]


def test_account_counts_some_types_only() -> None:
    assert scopes(account_type_regexes=("MatMul",)) == [
        ("model", 1, 80.0),
        ("model/dense", 2, 50.0),
        ("model/dense/MatMul", 3, 50.0),
        ("model/head", 2, 30.0),
        ("model/head/MatMul", 3, 30.0),
    ]
    assert names(account_type_regexes=("Mat",)) == []


def test_totals_of_what_is_displayed() -> None:
    options = {"hide_name_regexes": (".*Relu",), "account_displayed_op_only": True}
    assert scopes(**options)[:2] == [("model", 1, 80.0), ("model/dense", 2, 50.0)]


def test_what_is_only_too_deep_counts_with_what_is_above_it() -> None:
    found = scopes(preset="time_and_memory", max_depth=1)
    assert found == [("model", 1, 90.0), ("adam", 1, 5.0)]
    options = {"hide_name_regexes": (".*Relu",), "account_displayed_op_only": True}
    assert scopes(**options, max_depth=1)[0] == ("model", 1, 80.0)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("name", ["adam", "model", "model/dense", "model/head"]),
        ("depth", ["adam", "model", "model/dense", "model/head"]),
        ("micros", ["model", "model/dense", "model/head", "adam"]),
        ("cpu_micros", ["model", "model/dense", "model/head", "adam"]),
        # Nothing ran on a device: all are equal, so names decide.
        ("accelerator_micros", ["adam", "model", "model/dense", "model/head"]),
        ("occurrence", ["model", "model/dense", "model/head", "adam"]),
    ],
)
def test_siblings_are_ordered(order: str, expected: list[str]) -> None:
    hidden = (".*/(MatMul|Relu|Mul)",)
    assert names(order_by=order, hide_name_regexes=hidden) == expected


def test_columns_are_chosen_by_the_names_of_the_api() -> None:
    profile = blueprint.profile(TRACE)
    result = model_views.analyse(profile, Options(select=("occurrence", "op_types")))
    assert isinstance(result, ModelViewsResult)
    assert result.op.columns == [
        *("id", "parent", "depth", "name", "type", "occurrences")
    ]
    # What is not selected is not missing either.
    assert {one.field for one in result.missing} == {
        "annotation",
        "code",
        "unannotated_device_us",
        # Its columns are not selected.
        *("source", "source.device_us", "source.total_device_us"),
    }


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_decide_what_is_left_open(preset: str) -> None:
    settings = decide_settings(Options(preset=preset))  # type: ignore[arg-type]
    assert {name: getattr(settings, name) for name in PRESETS[preset]} == PRESETS[
        preset
    ]
    changed = decide_settings(Options(preset=preset, order_by="depth"))  # type: ignore[arg-type]
    assert changed.order_by == "depth"
    assert changed.select == settings.select


@pytest.mark.parametrize(
    ("preset", "decided"),
    [
        # As `ProfileOptionBuilder` of TensorFlow returns them, but time is enough.
        ("time_and_memory", {"min_micros": 1, "select": ("micros", "bytes")}),
        (
            "trainable_variables_parameter",
            {
                "min_params": 1,
                "order_by": "name",
                "select": ("params",),
                "trainable_only": True,
            },
        ),
        (
            "float_operation",
            {"min_float_ops": 1, "order_by": "float_ops", "select": ("float_ops",)},
        ),
    ],
)
def test_presets_are_those_of_the_older_api(
    preset: Any, decided: dict[str, Any]
) -> None:
    expected = Settings(account_displayed_op_only=True, **decided)
    assert decide_settings(Options(preset=preset)) == expected


def test_trained_variables_have_their_column_and_are_the_only_ones() -> None:
    settings = decide_settings(
        Options(preset="time_and_memory", show_trainable_variables=True)
    )
    assert settings.trainable_only
    assert settings.select == ("micros", "bytes", "params")
    off = decide_settings(Options(show_trainable_variables=False))
    assert off == Settings()


def test_a_preset_shows_its_columns() -> None:
    profile = blueprint.profile(TRACE)
    result = model_views.analyse(profile, Options(preset="time_and_memory"))
    assert isinstance(result, ModelViewsResult)
    wanted = {*SELECTABLE["micros"], *SELECTABLE["bytes"]}
    assert set(result.scope.columns) == {"id", "parent", "depth", "name", *wanted}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"show_name_regexes": ["("]}, "not a valid regular expression"),
        ({"select": ["micros", "seconds"]}, "seconds"),
        ({"order_by": "size"}, "order_by"),
        ({"view": "tree"}, "view"),
        ({"preset": "all"}, "preset"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadUsage, match=message):
        analyse(blueprint.profile(TRACE), "model_views", options)


def test_without_options_every_node_is_shown_longest_first() -> None:
    settings = asdict(decide_settings(Options()))
    named = ("account_type", "start_name", "show_name")
    assert settings == {
        "max_depth": 10_000,
        **dict.fromkeys(("min_micros", "min_accelerator_micros"), 0),
        **dict.fromkeys(("min_cpu_micros", "min_bytes", "min_params"), 0),
        **dict.fromkeys(("min_float_ops", "min_occurrence"), 0),
        "order_by": "micros",
        **{f"{name}_regexes": (".*",) for name in named},
        **{f"{name}_name_regexes": () for name in ("trim", "hide")},
        "account_displayed_op_only": False,
        "show_trainable_variables": False,
        "select": tuple(SELECTABLE),
        "trainable_only": False,
    }


def test_a_comma_is_part_of_a_pattern_and_separates_selected_columns() -> None:
    given = {"show_name_regexes": ("a{1,2}", "b"), "select": ("micros,bytes",)}
    assert chosen_options(given) == {
        "show_name_regexes": ("a{1,2}", "b"),
        "select": ("micros", "bytes"),
    }
