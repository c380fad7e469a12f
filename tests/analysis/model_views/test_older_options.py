"""Options of the older profiler: what they are here, and what has no meaning."""

from __future__ import annotations

import msgspec
import pytest

import stepscope as ss
from stepscope.analysis.model_views.settings import PRESETS, decide_settings
from stepscope.analysis.options import ModelViewsOptions
from stepscope.errors import BadUsage
from stepscope.profiler.views import KNOWN, read_request

#: Keys of `tf.compat.v1.profiler.ProfileOptionBuilder` in TensorFlow 2.21, and of
#: `_build_options` there.
OF_TENSORFLOW = (
    *("max_depth", "min_bytes", "min_micros", "min_params", "min_float_ops"),
    *("min_occurrence", "order_by", "account_type_regexes", "start_name_regexes"),
    *("trim_name_regexes", "show_name_regexes", "hide_name_regexes"),
    *("account_displayed_op_only", "select", "step", "output", "dump_to_file"),
    *("min_peak_bytes", "min_residual_bytes", "min_output_bytes"),
    *("min_accelerator_micros", "min_cpu_micros"),
)
READY_MADE = (
    "time_and_memory",
    "trainable_variables_parameter",
    "float_operation",
)


@pytest.mark.parametrize("name", OF_TENSORFLOW)
def test_every_option_of_the_older_api_is_known(name: str) -> None:
    assert name in KNOWN


@pytest.mark.parametrize("name", READY_MADE)
def test_ready_made_options_are_the_presets_in_words_of_the_older_api(
    name: str,
) -> None:
    options = getattr(ss.ProfileOptionBuilder, name)()
    assert type(options) is dict
    assert set(options) <= set(OF_TENSORFLOW)
    wanted = read_request(options)
    assert (wanted.output, wanted.notes) == ("stdout", ())
    settings = decide_settings(msgspec.convert(wanted.options, ModelViewsOptions))
    found = {field: getattr(settings, field) for field in PRESETS[name]}
    assert {**found, "select": set(found["select"])} == {
        **PRESETS[name],
        "select": set(PRESETS[name]["select"]),
    }


def test_ready_made_options_are_new_each_time() -> None:
    options = ss.ProfileOptionBuilder.time_and_memory(min_cpu_micros=5)
    assert options["min_cpu_micros"] == 5
    kept = options["show_name_regexes"]
    assert isinstance(kept, list)
    kept.append("changed")
    assert ss.ProfileOptionBuilder.time_and_memory()["show_name_regexes"] == [".*"]


def test_an_option_that_does_not_exist_is_one_line_with_those_that_do() -> None:
    with pytest.raises(BadUsage) as caught:
        read_request({"show_trainable_variable": True})
    assert str(caught.value).startswith(
        "there is no option of a view 'show_trainable_variable'; known: "
    )
    assert set(KNOWN) <= set(str(caught.value).replace(",", " ").rstrip(".").split())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("min_peak_bytes", 1, "memory_profile"),
        ("min_residual_bytes", 1, "memory_profile"),
        ("min_output_bytes", 1, "memory_profile"),
        ("select", ["micros", "tensor_value"], "no column tensor_value"),
        ("select", ["micros", "device"], "cpu_micros"),
        ("order_by", "peak_bytes", "no column peak_bytes"),
        ("output", "timeline:outfile=t.json", "stepscope show trace_viewer"),
    ],
)
def test_what_has_no_meaning_here_is_said(
    option: str, value: object, said: str
) -> None:
    wanted = read_request({option: value})
    (note,) = wanted.notes
    assert note.startswith(f"{option}: ")
    assert said in note
    left = {"select": ["micros"]} if option == "select" else {}
    assert wanted.options == left


def test_no_threshold_is_nothing_to_talk_about() -> None:
    assert read_request({"min_peak_bytes": 0, "step": -1}).notes == ()
    assert read_request({"step": -1}).options == {}
    assert read_request({"step": 3}).options == {"step": 3}


def test_trained_variables_are_no_type_here() -> None:
    alone = read_request({"account_type_regexes": ["_trainable_variables"]}).options
    assert alone == {
        "account_type_regexes": (".*",),
        "show_trainable_variables": True,
        "min_params": 1,
    }
    beside = read_request({"account_type_regexes": ["_trainable_variables", "MatMul"]})
    assert beside.options == {
        "account_type_regexes": ["MatMul", "Variable"],
        "show_trainable_variables": True,
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("none", "")),
        ({"output": "stdout"}, ("stdout", "")),
        ({"output": "none"}, ("none", "")),
        ({"output": "file:outfile=/tmp/a:b"}, ("file", "/tmp/a:b")),  # noqa: S108
        ({"output": "pprof:outfile=p.gz"}, ("pprof", "p.gz")),
        ({"dump_to_file": "view.txt", "output": "stdout"}, ("file", "view.txt")),
    ],
)
def test_output_is_read_as_the_older_api_writes_it(
    given: dict[str, object], expected: tuple[str, str]
) -> None:
    wanted = read_request(given)
    assert (wanted.output, wanted.outfile) == expected


@pytest.mark.parametrize(
    ("output", "said"), [("screen", "stdout"), ("file", "file:outfile=FILE")]
)
def test_an_output_that_cannot_be_is_refused(output: str, said: str) -> None:
    with pytest.raises(BadUsage, match=said):
        read_request({"output": output})
