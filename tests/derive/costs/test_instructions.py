"""Windows, and costs of instructions of compiled programs, worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest

from stepscope.derive.costs.instructions import instruction_costs
from stepscope.derive.costs.products import Window, convolution_terms, read_window
from stepscope.trace.tables import HLO_OPS

Costs = dict[str, tuple[int | None, int | None]]

LAYER = "window={size=3x3}, dim_labels=b01f_01io->b01f"
IMAGE, FILTER, RESULT = "f32[16,31,31,16]", "f32[3,3,16,32]", "f32[16,29,29,32]"
#: Two for each of 16 x 29 x 29 x 32 results, 9 places and 16 channels.
WORK = 2 * 16 * 29 * 29 * 32 * 9 * 16


def row(
    name: str, opcode: str, shape: str | None, *operands: str, **more: object
) -> dict[str, object]:
    common = {"program": 1, "module": "m", "matmul": False, "computation": "main"}
    given = {"name": name, "opcode": opcode, "shape": shape, "calls": []}
    return common | given | {"operands": list(operands)} | more


def costs(*rows: dict[str, object]) -> Costs:
    """Operations and bytes by name of the instruction."""
    table = pl.DataFrame(rows, schema=HLO_OPS.dtypes())
    found = instruction_costs(hlo_ops=table)
    return dict(zip(table["name"], found.rows(), strict=True))


def parameters(**shapes: str) -> list[dict[str, object]]:
    return [row(name, "parameter", shape) for name, shape in shapes.items()]


def test_a_window_with_every_setting() -> None:
    text = (
        "window={size=3x5 stride=2x1 pad=-1_1x2_0 lhs_dilate=1x2 rhs_dilate=3x1 "
        "rhs_reversal}, dim_labels=b01f_01io->f01b"
    )
    assert read_window(text) == Window(
        size=(3, 5),
        stride=(2, 1),
        low=(-1, 2),
        spread=(3, 1),
        gaps=(1, 2),
        labels=("b01f", "01io", "f01b"),
    )


def test_settings_that_are_not_written_are_those_of_a_plain_window() -> None:
    one = (1, 1)
    assert read_window("window={size=3x5}") == Window(
        (3, 5), one, (0, 0), one, one, None
    )


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "dim_labels=b0f_0io->b0f",
        "window={}",
        "window={stride=2}",
        "window={size=3xa}",
        "window={size=3x5 stride=2}",
        "window={size=3x5 pad=1_1}",
        "window={size=3x5 rhs_dilate=2}",
        "window={size=3x5 lhs_dilate=1x1x1}",
    ],
)
def test_windows_that_cannot_be_read(text: str | None) -> None:
    assert read_window(text) is None


def window(labels: str = "b01f_01io->b01f") -> Window:
    read = read_window(f"window={{size=3x2 stride=1x2}}, dim_labels={labels}")
    assert read is not None
    return read


def test_terms_of_two_dimensions_are_multiplied() -> None:
    # 3 windows of 3 rows; 4 windows of 2 columns; 2 images, 5 channels to 7.
    terms = convolution_terms(window(), (2, 5, 8, 5), (3, 2, 5, 7), (2, 3, 4, 7))
    assert terms == (3 * 3) * (4 * 2) * 2 * 5 * 7


def test_filters_without_channels_have_one() -> None:
    terms = convolution_terms(
        window("b01f_01o->b01f"), (2, 5, 8, 1), (3, 2, 7), (2, 3, 4, 7)
    )
    assert terms == (3 * 3) * (4 * 2) * 2 * 7


@pytest.mark.parametrize(
    ("labels", "sizes"),
    [
        ("b01f_01io->b01f", ((2, 5, 8), (3, 2, 5, 7), (2, 3, 4, 7))),
        ("b01f_01io->b01f", ((2, 5, 8, 5), (3, 2, 5), (2, 3, 4, 7))),
        ("b01f_01io->b01f", ((2, 5, 8, 5), (3, 2, 5, 7), (2, 3, 4))),
        ("b0f_01io->b01f", ((2, 5, 5), (3, 2, 5, 7), (2, 3, 4, 7))),
        ("b01f_01io->b0f", ((2, 5, 8, 5), (3, 2, 5, 7), (2, 3, 7))),
    ],
)
def test_labels_that_do_not_fit_leave_the_terms_unknown(
    labels: str, sizes: tuple[tuple[int, ...], ...]
) -> None:
    assert convolution_terms(window(labels), *sizes) is None


def test_terms_need_labels() -> None:
    plain = read_window("window={size=1}")
    assert plain is not None
    assert convolution_terms(plain, (2,), (1,), (2,)) is None


@pytest.mark.parametrize(("length", "known"), [(2**20, True), (2**20 + 1, False)])
def test_dimensions_longer_than_a_million_are_not_counted(
    length: int,
    known: bool,  # noqa: FBT001 - a parameter
) -> None:
    single = read_window("window={size=1}, dim_labels=0_0->0")
    assert single is not None
    terms = convolution_terms(single, (3,), (1,), (length,))
    assert terms == (3 if known else None)


@pytest.mark.parametrize(
    ("call", "operands", "result"),
    [
        ("__cudnn$convForward", (IMAGE, FILTER), RESULT),
        ("__cudnn$convBackwardInput", (RESULT, FILTER), IMAGE),
        ("__cudnn$convBackwardFilter", (IMAGE, RESULT), FILTER),
    ],
)
def test_the_three_library_calls_of_a_layer_cost_the_same(
    call: str, operands: tuple[str, str], result: str
) -> None:
    first, second = operands
    found = costs(
        *parameters(a=first, b=second),
        row(
            "x",
            "custom-call",
            f"({result}, u8[9])",
            "a",
            "b",
            custom_call=call,
            attributes=LAYER,
        ),
    )
    image, weights, outer = 16 * 31 * 31 * 16, 3 * 3 * 16 * 32, 16 * 29 * 29 * 32
    assert found["x"] == (WORK, 4 * (image + weights + outer))


def test_a_convolution_needs_a_window_and_two_operands() -> None:
    found = costs(
        *parameters(a=IMAGE, b=FILTER),
        row("whole", "convolution", RESULT, "a", "b", attributes=LAYER),
        row("bare", "convolution", RESULT, "a", "b"),
        row("single", "convolution", RESULT, "a", attributes=LAYER),
        row(
            "unlabelled",
            "convolution",
            RESULT,
            "a",
            "b",
            attributes="window={size=3x3}",
        ),
    )
    assert [found[name][0] for name in ("whole", "bare", "single", "unlabelled")] == [
        *(WORK, None, None, None)
    ]


def test_a_product_sums_over_every_contracted_dimension() -> None:
    found = costs(
        *parameters(a="f32[4,6,5]", b="f32[6,5,7]"),
        row(
            "dot", "dot", "f32[4,7]", "a", "b", attributes="lhs_contracting_dims={1,2}"
        ),
        row(
            "gemm",
            "custom-call",
            "f32[4,7]",
            "a",
            "b",
            attributes="lhs_contracting_dims={1}",
        ),
        row("alone", "dot", "f32[4]"),
        row("unknown", "dot", "f32[4]", "nowhere"),
    )
    assert found["dot"] == (2 * 28 * 30, 4 * (120 + 210 + 28))
    assert found["gemm"][0] == 2 * 28 * 6
    assert found["alone"] == (None, 16)
    assert found["unknown"] == (None, None)


@pytest.mark.parametrize(("dtype", "counts"), [("f32", 1), ("s32", 0)])
def test_reductions_count_only_floating_point_numbers(dtype: str, counts: int) -> None:
    found = costs(
        *parameters(
            a=f"{dtype}[8,4]", zero=f"{dtype}[]", at="s32[3]", part=f"{dtype}[3,4]"
        ),
        row("reduce", "reduce", f"{dtype}[8]", "a", "zero"),
        row("empty", "reduce", f"{dtype}[8]"),
        row(
            "pool",
            "reduce-window",
            f"{dtype}[4,2]",
            "a",
            attributes="window={size=2x2}",
        ),
        row("bare", "reduce-window", f"{dtype}[4,2]", "a"),
        row(
            "select",
            "select-and-scatter",
            f"{dtype}[8,4]",
            "a",
            attributes="window={size=3x1}",
        ),
        row("scatter", "scatter", f"{dtype}[8,4]", "a", "at", "part"),
        row("two", "scatter", f"{dtype}[8,4]", "a", "at"),
        row("sum", "all-reduce-start", f"(f32[2], {dtype}[8,4])", "a"),
        row("scattered", "reduce-scatter", f"{dtype}[4,4]", "a"),
        row("other", "rng", f"{dtype}[4]"),
    )
    assert {name: cost[0] for name, cost in found.items()} == {
        **dict.fromkeys(("a", "zero", "at", "part"), 0),
        "reduce": counts * (32 - 8),
        "empty": None,
        "pool": counts * 8 * 3,
        "bare": None,
        "select": counts * 32 * 2,
        "scatter": counts * 12,
        "two": None,
        "sum": counts * 32,
        "scattered": counts * 16,
        "other": None,
    }


def test_bytes_are_those_of_operands_and_results() -> None:
    found = costs(
        *parameters(a="f32[8,4]", strange="odd[8]"),
        row("moved", "transpose", "f32[4,8]", "a"),
        row("renamed", "bitcast", "f32[4,8]", "a"),
        row("two", "rng", "(f32[8,4], s32[8,4])", "a", "a"),
        row("called", "custom-call", "(f32[8,4], s8[99])", "a", custom_call="x"),
        row("odd", "add", "f32[8]", "strange", "strange"),
        row("lost", "add", "f32[8]", "nowhere"),
        row("shapeless", "add", None, "a"),
        row("made", "rng", "f32[8]"),
    )
    assert {name: cost[1] for name, cost in found.items()} == {
        "a": None,
        "strange": None,
        "moved": 256,
        "renamed": None,
        "two": 128 * 4,
        "called": 256,
        "odd": None,
        "lost": None,
        "shapeless": None,
        "made": 32,
    }


def test_names_belong_to_their_computation() -> None:
    found = costs(
        *parameters(a="f32[8]"),
        row("a", "parameter", "f32[100]", computation="other"),
        row("x", "add", "f32[8]", "a", "a"),
        row("y", "add", "f32[100]", "a", "a", computation="other"),
    )
    assert (found["x"], found["y"]) == ((8, 96), (100, 1200))


@pytest.mark.parametrize(("levels", "flops"), [(17, 8), (18, None)])
def test_fusions_nested_deeper_than_sixteen_are_unknown(
    levels: int, flops: int | None
) -> None:
    rows = [
        row(
            f"fusion{level}",
            "fusion",
            "f32[8]",
            calls=[f"inside{level + 1}"],
            computation=f"inside{level}",
        )
        for level in range(levels)
    ]
    inside = f"inside{levels}"
    found = costs(*rows, row("add", "add", "f32[8]", computation=inside))
    assert found["fusion0"][0] == flops


def test_a_fusion_adds_up_all_that_it_calls() -> None:
    found = costs(
        row("x", "add", "f32[8]", computation="one"),
        row("y", "add", "f32[5]", computation="two"),
        row("both", "fusion", "f32[8]", calls=["one", "two"]),
        row("half", "fusion", "f32[8]", calls=["one", "nowhere"]),
        row("none", "fusion", "f32[8]"),
    )
    assert [found[name][0] for name in ("both", "half", "none")] == [13, None, None]


def test_implausible_sizes_have_no_cost() -> None:
    found = costs(row("x", "rng", f"f32[{2**54}]"), row("y", "add", f"u8[{2**56 - 1}]"))
    assert found == {"x": (None, None), "y": (0, 2**56 - 1)}
