"""`host.work` over literal accounts: fires, stays silent, near miss, cannot tell."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.results.pages import page
from tests.support.traces import blueprint
from tests.support.traces.training import findings, on_host

from stepscope.advice.rules.idle_gaps.host_work import evaluate
from stepscope.derive.facts.evidence import Part, Saving
from stepscope.derive.facts.hosts.eager_ops import EagerOps, EagerSignals, eager_signals
from stepscope.derive.facts.step_shares import NamedTime
from stepscope.derive.verdicts.recorded_devices import DeviceSignals
from stepscope.reporting.words.findings import lead_sentence
from stepscope.thresholds import THRESHOLDS

MS = 1_000_000_000
HOST_ONLY = DeviceSignals(recorded="host_only")


def op(ms: float) -> NamedTime:
    return NamedTime("host_compute", "inside", "Conv2D", time_ps=round(ms * MS))


def function(ms: float) -> NamedTime:
    return NamedTime(
        "host_compute",
        "inside",
        "augment",
        function="augment",
        file="data/images.py",
        line=41,
        time_ps=round(ms * MS),
    )


def other_function(ms: float) -> NamedTime:
    return NamedTime(
        "host_compute", "inside", "pad", function="pad", time_ps=round(ms * MS)
    )


def test_a_function_that_a_device_waits_for_is_found_by_file_and_line(
    signals_of: Any, shares: Any
) -> None:
    one = shares(host_compute=5.7, names=[function(66.0), op(2.4)])
    finding = evaluate(signals_of(one))
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.share_percent == pytest.approx(57.0)
    assert finding.parts[0] == Part(
        name="augment",
        function="augment",
        file="data/images.py",
        line=41,
        share_percent=pytest.approx(55.0),
    )


@pytest.mark.parametrize(("of_system", "advised"), [(40.0, 1), (20.0, 0)])
def test_what_asks_the_system_for_most_of_it_is_to_be_done_once(
    signals_of: Any, shares: Any, of_system: float, advised: int
) -> None:
    asked = NamedTime(
        "host_compute",
        "inside",
        "ioctl",
        function="ioctl",
        time_ps=round(of_system * MS),
    )
    one = shares(host_compute=6.0, names=[asked, function(60.0 - of_system)])
    finding = evaluate(signals_of(one))
    assert finding.status == "fail"
    found = [it for it in finding.actions if "system calls" in it.text]
    assert len(found) == advised
    assert (len(finding.actions) == 1) == (advised == 1)


def test_the_function_around_most_of_it_stands_first(
    signals_of: Any, shares: Any
) -> None:
    around = Part(name="preprocess", function="preprocess", share_percent=56.0)
    one = shares(host_compute=5.7, names=[function(30.0)])
    finding = evaluate(signals_of(one, around={"vm:0": around}))
    assert [part.name for part in finding.parts] == ["preprocess", "augment"]


def test_the_function_around_its_own_work_is_named_once(
    signals_of: Any, shares: Any
) -> None:
    """What `augment` does itself is a part of what it holds with all that it calls."""
    around = Part(
        name="augment",
        function="augment",
        file="data/images.py",
        line=41,
        share_percent=56.0,
    )
    one = shares(host_compute=5.7, names=[function(30.0), other_function(20.0)])
    finding = evaluate(signals_of(one, around={"vm:0": around}))
    assert [part.name for part in finding.parts] == ["augment", "pad"]


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (30.0, "Work on the host: `augment` (images.py:41) takes 25.0 % of the step"),
        (
            28.0,
            (
                "Work on the host takes 50.0 % of the step, the largest part of it in "
                "`augment` (images.py:41): 23.3 %."
            ),
        ),
    ],
)
def test_a_function_of_half_of_the_work_speaks_for_all_of_it(
    signals_of: Any, shares: Any, ms: float, said: str
) -> None:
    """By hand: 60 of 120 ms are work; 30 of it is half, 28 is 23.3 %."""
    one = shares(host_compute=5.0, names=[function(ms), other_function(20.0)])
    finding = evaluate(signals_of(one))
    assert lead_sentence(finding).startswith(said)


def test_ops_that_a_device_waits_for_are_another_matter(
    signals_of: Any, shares: Any
) -> None:
    one = shares(host_compute=5.7, names=[op(60.0), function(8.0)])
    finding = evaluate(signals_of(one))
    assert (finding.status, finding.note) == ("pass", "ops")


@pytest.mark.parametrize(("ms", "status"), [(0.51, "fail"), (0.49, "pass")])
def test_a_twentieth_of_the_time_is_the_limit_on_a_device(
    signals_of: Any, shares: Any, ms: float, status: str
) -> None:
    one = shares(host_compute=ms, names=[function(12 * ms)])
    assert evaluate(signals_of(one)).status == status


def test_ops_of_the_model_are_the_step_of_a_run_on_the_host(
    signals_of: Any, shares: Any
) -> None:
    one = shares(device=None, names=[op(100.0), function(20.0)])
    finding = evaluate(signals_of(one, device=HOST_ONLY))
    assert (finding.status, finding.severity, finding.note) == ("pass", "info", "ops")
    assert finding.share_percent == pytest.approx(100.0)


def test_without_ops_of_a_model_the_functions_are_the_step(
    signals_of: Any, shares: Any
) -> None:
    one = shares(device=None, names=[op(4.9), function(90.0)])
    finding = evaluate(signals_of(one, device=HOST_ONLY))
    assert (finding.severity, finding.note) == ("info", "functions")
    assert finding.parts[0].name == "augment"


def test_a_function_that_holds_a_fifth_of_a_step_on_the_host_is_found(
    signals_of: Any, shares: Any
) -> None:
    one = shares(device=None, names=[op(90.0), function(30.0)])
    finding = evaluate(signals_of(one, device=HOST_ONLY))
    assert finding.status == "fail"
    assert finding.parts[0].name == "augment"
    # A quarter of a step of 10 ms: all that the function could save.
    assert finding.saving_ms == Saving(low=1.25, high=2.5)


def test_what_the_loop_itself_takes_is_the_step(signals_of: Any, shares: Any) -> None:
    loop = NamedTime(
        owner="host_compute",
        place="inside",
        name="main",
        function="main",
        loop=True,
        time_ps=30 * 1_000_000_000,
    )
    one = shares(device=None, names=[op(90.0), loop])
    finding = evaluate(signals_of(one, device=HOST_ONLY))
    assert (finding.status, finding.note) == ("pass", "ops")
    one = shares(device=None, names=[op(50.0), loop, function(28.0)])
    finding = evaluate(signals_of(one, device=HOST_ONLY))
    assert finding.status == "fail"
    assert finding.parts[0].name == "augment"


def helped(*, within: int, of: str = "prep/cut:Cut") -> list[Any]:
    """Bc in whose steps a function works for 3.8 ms and calls so many ops of 60 µs."""
    lines = on_host(lead_us=4_000.0)
    begins = [line[2] for line in lines if line[1] == "train"]
    for begin in begins:
        lines.append(("main", "$/app/train.py:41 augment", begin + 100.0, 3_800.0))
        lines += [
            ("main", of, begin + 200.0 + 100.0 * at, 60.0, {"is_eager": 0})
            for at in range(within)
        ]
    return lines


@pytest.mark.parametrize(("fetched", "basis"), [(True, "bound"), (False, "replay")])
def test_what_the_function_calls_goes_with_it(*, fetched: bool, basis: str) -> None:
    """Of 3.8 ms it works 2.0 itself; the rest is ops that nobody else runs.

    What the steps' fetches wait for is not recorded, so that no replay stands.
    """
    lines = helped(within=30)
    if not fetched:
        lines = [line for line in lines if line[1] != "IteratorGetNext"]
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.parts[0].name) == ("fail", "augment")
    assert found.parts[0].share_percent == pytest.approx(38.0, abs=0.5)
    assert found.saving_ms is not None
    assert found.saving_ms.high == pytest.approx(3.8, abs=0.05)
    # Only a replay promises a least gain.
    low = 0.0 if basis == "bound" else 1.9
    assert found.saving_ms.low == pytest.approx(low, abs=0.05)
    assert found.saving_ms.basis == basis


def test_the_two_shares_of_a_function_are_told_apart() -> None:
    """Of steps of 10 ms 2.0 are its own, 3.8 with the ops that it calls.

    One report gave both under the same words.
    """
    told = page(blueprint.trace(helped(within=30)), width=110)
    assert "augment (train.py:41)  20.0 % self time\n" in told
    assert "`augment` (train.py:41) 38.0 % (total time); " in told


@pytest.mark.parametrize(("steps", "first"), [(9, "less often"), (10, "Vectorise")])
def test_what_most_steps_do_without_is_to_be_done_more_rarely(
    steps: int, first: str
) -> None:
    """Of 19 judged steps so many call it; what it takes is all of the step's rest."""
    lines = on_host(lead_us=9_000.0)
    begins = [line[2] for line in lines if line[1] == "train"][:steps]
    lines += [
        ("main", "$/app/train.py:41 validate", begin + 50.0, 8_900.0)
        for begin in begins
    ]
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.parts[0].name) == ("fail", "validate")
    assert first in found.actions[0].text


def test_ops_that_mostly_run_elsewhere_are_none_of_the_functions() -> None:
    """Looks that come late make a function seem to last into the model's ops."""
    lines = helped(within=0)
    late = [
        (track, name, start, 6_000.0 if at == 4 else dur, *rest)
        for at, (track, name, start, dur, *rest) in enumerate(
            line for line in lines if line[1].endswith("augment")
        )
    ]
    rest = [line for line in lines if not line[1].endswith("augment")]
    found = findings(rest + late, devices=None)["host.work"]
    assert found.saving_ms is not None
    assert found.saving_ms.high == pytest.approx(3.8, abs=0.05)


def test_a_function_that_calls_the_models_ops_is_the_step() -> None:
    lines = on_host(lead_us=4_000.0)
    begins = [line[2] for line in lines if line[1] == "train"]
    lines += [
        ("main", "$/app/train.py:12 train_step", begin + 50.0, 9_930.0)
        for begin in begins
    ]
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.note) == ("pass", "ops")
    # It holds twice the share from which a function would be a fault.
    assert found.parts[0].name == "train_step"
    assert found.parts[0].share_percent > 2 * THRESHOLDS.host_function.value


def test_a_pass_of_the_model_is_no_fault() -> None:
    """A step: 3.9 ms in `forward`, 2.9 ms of nodes of gradients, 1.5 ms of an update.

    The nodes run ops of the forward pass again, and are of more kinds than it has.
    """
    lines = [line for line in on_host() if not line[1].startswith("model/")]
    for begin in [line[2] for line in lines if line[1] == "train"]:
        lines.append(("main", "$/app/net.py:12 forward", begin + 45.0, 3_900.0))
        for at, op in enumerate(("addmm", "relu", "_softmax")):
            node = f"{op.strip('_').title()}Backward0"
            start = begin + 4_100.0 + 950.0 * at
            lines += [
                ("main", f"aten::{op}", begin + 50.0 + 750.0 * at, 740.0),
                ("main", f"autograd::engine::evaluate_function: {node}", start, 940.0),
                ("main", node, start + 5.0, 930.0),
                ("main", "aten::addmm", start + 10.0, 400.0),
                ("main", f"aten::{op}_backward", start + 420.0, 500.0),
                ("main", "aten::lerp_", begin + 7_050.0 + 500.0 * at, 490.0),
            ]
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.note) == ("pass", "ops")
    assert found.parts[0].name == "forward"
    # The last of the 20 steps ends with its mark of 9.99 ms.
    assert found.parts[0].share_percent == pytest.approx(100 * 78 / 199.99)


def eager_of(dispatch_ms: float) -> dict[Any, Any]:
    ops = EagerOps(
        eager_ps=90 * MS,
        op_ps=None,
        dispatch_ps=(round(dispatch_ms * MS),) * 12,
        per_step=100.0,
        names=(("add", 100.0),),
    )
    return {eager_signals: EagerSignals({"vm": ops}, torch=False)}


@pytest.mark.parametrize(("ms", "why"), [(1.6, ("launch.eager",)), (1.4, ())])
def test_a_function_whose_time_is_calls_of_ops_is_a_matter_of_these(
    signals_of: Any, shares: Any, ms: float, why: tuple[str, ...]
) -> None:
    """The function takes 2.5 ms of a step, of which 60 % are 1.5."""
    one = shares(device=None, names=[op(90.0), function(30.0)])
    finding = evaluate(signals_of(one, eager_of(ms), device=HOST_ONLY))
    assert (finding.status, finding.explained_by) == ("fail", why)


def test_what_was_not_recorded_cannot_tell(signals_of: Any, shares: Any) -> None:
    fault = {"host_compute": 5.7, "names": [function(60.0)]}
    for signals in (
        signals_of(),
        signals_of(shares(**fault, missing=["host_compute"])),
        signals_of(
            shares(**fault, device=None), device=DeviceSignals(recorded="silent")
        ),
        signals_of(shares(host_compute=0.1, unexplained=6.0)),
    ):
        finding = evaluate(signals)
        assert finding.status == "cannot_tell"
        assert finding.unavailable is not None


def test_a_model_that_is_asked_in_each_step_is_not_trained_meanwhile() -> None:
    """`predict` runs ops of the model, and is no step of it."""
    keras = "/opt/lib/python3.12/site-packages/keras/src/trainer.py"
    lines = on_host(lead_us=4_000.0)
    begins = [line[2] for line in lines if line[1] == "train"]
    for begin in begins:
        lines += [
            ("main", "/app/agent.py(12): act", begin + 50.0, 9_900.0),
            ("main", f"{keras}(521): TensorFlowTrainer.predict", begin + 60.0, 9_800.0),
            ("main", "compilation of predict", begin + 100.0, 2_000.0),
        ]
    every = findings(lines, devices=None)
    found = every["host.work"]
    assert (found.status, found.parts[0].name) == ("fail", "act")
    assert found.actions[0].code == "model(x, training=False)"
    # What `predict` compiles goes with it: there is no batch's shape to mend.
    compiling = every["xla.recompile"]
    assert (compiling.status, compiling.explained_by) == ("fail", ("host.work",))


def asking(*, anew: bool) -> list[Any]:
    """Steps that are Keras's `predict`: looks join what runs in all of them."""
    trainer, iterator = (
        f"$/opt/lib/python3.12/site-packages/keras/src/{file}"
        for file in ("trainer.py:521", "epoch_iterator.py:50")
    )
    lines = on_host(lead_us=4_000.0)
    begins = [line[2] for line in lines if line[1] == "train"]
    looks = "samples of main, 1000 a second"
    first, last = begins[0], begins[-1] + 9_990.0
    for function in (
        *("$/app/score.py:30 main", "$/app/score.py:12 score_file"),
        f"{trainer} TensorFlowTrainer.predict",
    ):
        lines.append((looks, function, first, last - first))
    return lines + [
        (looks, f"{iterator} TFEpochIterator.__init__", begin + 100.0, 2_000.0)
        for begin in begins[: None if anew else 1]
    ]


@pytest.mark.parametrize("anew", [True, False])
def test_calls_of_predict_are_told_from_one_call_for_many_batches(
    *, anew: bool
) -> None:
    found = findings(asking(anew=anew), devices=None)["host.work"]
    assert found.status == ("fail" if anew else "pass")
    if anew:
        assert found.parts[0].name == "score_file"
        assert found.actions[0].code == "model(x, training=False)"


def test_an_update_by_ops_that_began_before_a_look_is_found() -> None:
    """A step: 3 ms of the model, then 6.6 ms of one op; looks find the last 5 ms."""
    looks = "samples of main, 1000 a second"
    lines = [line for line in on_host() if not line[1].startswith("model/")]
    for begin in [line[2] for line in lines if line[1] == "train"]:
        for at, op in enumerate(("addmm", "relu", "_softmax")):
            node = f"{op.strip('_').title()}Backward0"
            start = begin + 50.0 + 1_000.0 * at
            lines += [
                ("main", f"aten::{op}", start, 490.0),
                ("main", node, start + 500.0, 490.0),
            ]
        lines += [
            ("main", "aten::mul", begin + 3_200.0, 6_600.0),
            (looks, "$/app/train.py:10 update", begin + 4_900.0, 5_000.0),
        ]
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.parts[0].name) == ("fail", "update")
    assert "_foreach_" in (found.actions[0].code or "")


def test_what_a_compiled_step_calls_back_is_named_with_the_time_of_the_op() -> None:
    """A step: 6 ms in an op, on another thread, which looks find half of the time."""
    jax = "/opt/lib/python3.12/site-packages/jax/_src/callback.py"
    lines = on_host(lead_us=7_000.0)
    for begin in [line[2] for line in lines if line[1] == "train"]:
        called = ("pool", "pure_callback.1", begin + 100.0, 6_000.0)
        stack = (f"{jax}(79): pure_callback_impl", "/app/net.py(2): look_up")
        lines += [
            ("main", *called[1:]),
            *(("seen", name, begin + 3_100.0, 3_000.0) for name in stack),
        ]
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.parts[0].name) == ("fail", "look_up")
    assert found.parts[0].share_percent == pytest.approx(60, abs=0.1)
    assert "jax.numpy" in found.actions[0].text


TORCH = "/opt/lib/python3.12/site-packages/torch"


def without_a_model() -> tuple[list[Any], list[float]]:
    """Return the steps of 10 ms without their ops, and when each begins, in µs."""
    lines = [line for line in on_host() if not line[1].startswith("model/")]
    return lines, [line[2] for line in lines if line[1] == "train"]


def passes(begin: float, lasts_us: float) -> list[Any]:
    """A forward and a backward pass of three ops each, without gaps."""
    lines: list[Any] = []
    each = lasts_us / 6
    for at, op in enumerate(("addmm", "relu", "_softmax")):
        node = f"{op.strip('_').title()}Backward0"
        lines += [
            ("main", f"aten::{op}", begin + each * at, each),
            ("main", node, begin + each * (3 + at), each),
        ]
    return lines


def test_the_function_that_trains_is_the_step_and_what_it_calls_is_named() -> None:
    """A step: 5 ms of the model and 4.2 ms of `update`, all called by `micro_step`.

    Looks find both in half of the steps: 42 of the 200 ms of all of them.
    """
    lines, begins = without_a_model()
    looks = "samples of main, 100 a second"
    for number, begin in enumerate(begins):
        lines += passes(begin + 100.0, 5_000.0)
        if number % 2:
            continue
        micro = begin + 50.0
        lines += [
            (looks, "/app/train.py(30): micro_step", micro, 9_300.0),
            (looks, f"{TORCH}/_tensor.py(566): Tensor.backward", micro + 10, 4_900.0),
            (looks, "/app/train.py(12): update", micro + 5_050.0, 4_200.0),
        ]
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.parts[0].name) == ("fail", "update")
    assert found.parts[0].share_percent == pytest.approx(21.0, abs=0.1)


@pytest.mark.parametrize(
    ("library", "advice"),
    [
        ("/opt/lib/python3.12/copy.py(128): deepcopy", "Copy only values that change"),
        ("/opt/lib/python3.12/json/encoder.py(183): encode", "Write results every n"),
        ("/opt/lib/python3.12/json/decoder.py(330): decode", "Parse the data once"),
        ("/opt/lib/python3.12/gzip.py(300): GzipFile.read", "Decompress data"),
        ("/opt/lib/python3.12/gzip.py(280): GzipFile.write", "Write results every n"),
        ("/opt/lib/python3.12/logging/__init__.py(1): emit", "Report every n steps"),
        (
            "/opt/lib/python3.12/site-packages/pandas/frame.py(9): DataFrame.iterrows",
            "Work on whole columns",
        ),
        (
            "/opt/lib/python3.12/site-packages/PIL/Image.py(900): Image.resize",
            "Decode and transform images",
        ),
        ("/opt/lib/python3.12/random.py(400): Random.gauss", "Draw all random"),
        ("/opt/lib/python3.12/heapq.py(400): heappop", "Call the library functions"),
        (
            f"{TORCH}/_tensor.py(1100): Tensor.__iter__",
            "Vectorise the named function: taking elements",
        ),
        (
            "/app/train.py(30): scaled",
            "Vectorise the named function: the program's own",
        ),
        ("gloo:all_reduce", "Exchange few large tensors"),
        ("garbage collection", "Create fewer Python objects"),
    ],
)
def test_what_fits_a_function_depends_on_the_library_that_it_spends_its_time_in(
    library: str, advice: str
) -> None:
    """A step: 5 ms of the model, then 4 ms of `keep`, 3 ms of them for one thing."""
    lines, begins = without_a_model()
    for begin in begins:
        lines += passes(begin + 100.0, 5_000.0)
        lines += [
            ("main", "/app/train.py(12): keep", begin + 5_500.0, 4_000.0),
            ("main", library, begin + 5_600.0, 3_000.0),
        ]
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.parts[0].name) == ("fail", "keep")
    assert found.parts[0].share_percent == pytest.approx(100 * 80 / 199.99)
    assert found.actions[0].text.startswith(advice)


def test_ops_that_run_more_densely_within_looks_belong_to_the_function() -> None:
    """A step: 5 ms of the model, then 4 ms of an op, which looks find in half."""
    lines, begins = without_a_model()
    for number, begin in enumerate(begins):
        lines += passes(begin + 100.0, 5_000.0)
        lines.append(("main", "aten::copy_", begin + 5_500.0, 4_000.0))
        if number % 2 == 0:
            lines.append(
                (
                    "samples of main, 100 a second",
                    "$/app/train.py:10 keep",
                    begin + 4_400.0,
                    5_000.0,
                )
            )
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.parts[0].name) == ("fail", "keep")
    # The looks' time is as much as they say: 5 ms in each of ten of the 20 steps.
    assert found.parts[0].share_percent == pytest.approx(100 * 50 / 199.99, abs=0.1)


def test_a_function_that_asks_the_model_in_each_step_is_to_do_so_more_rarely() -> None:
    """A step: 5 ms of training, then 4 ms of the forward pass again."""
    lines, begins = without_a_model()
    module = f"{TORCH}/nn/modules/module.py(1782): Module._call_impl"
    for begin in begins:
        lines += passes(begin + 100.0, 5_000.0)
        lines += [
            ("main", "/app/train.py(12): validate", begin + 5_500.0, 4_000.0),
            ("main", module, begin + 5_600.0, 3_000.0),
            ("main", "aten::linear", begin + 5_700.0, 2_500.0),
        ]
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.parts[0].name) == ("fail", "validate")
    assert found.actions[0].text.startswith("Call the model every n steps")


def test_a_validation_longer_than_the_training_is_no_pass_of_it() -> None:
    """PyTorch's own names: no folder, no class. A step validates over nine batches.

    The story: most of the forward pass ran in `validate`, which was taken for it.
    """
    lines, begins = without_a_model()
    for begin in begins:
        lines += passes(begin + 100.0, 2_000.0)
        lines.append(("main", "train.py(12): validate", begin + 2_500.0, 6_320.0))
        for batch in range(9):
            at = begin + 2_510.0 + 700.0 * batch
            lines += [
                ("main", "torch/nn/modules/module.py(1782): _call_impl", at, 695.0),
                *(
                    ("main", f"aten::{op}", at + 230.0 * place, 230.0)
                    for place, op in enumerate(("addmm", "relu", "_softmax"))
                ),
            ]
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.parts[0].name) == ("fail", "validate")
    assert found.actions[0].text.startswith("Call the model every n steps")


@pytest.mark.parametrize(("looks", "status"), [(2, "pass"), (3, "fail")])
def test_two_looks_do_not_say_how_long_a_function_runs(looks: int, status: str) -> None:
    """Eight looks at 20 steps of 4 ms: two of them would be a quarter of the time."""
    lines = on_host(step_us=4_000.0, lead_us=2_500.0)
    lines += [
        ("samples of main, 100 a second", "$/app/train.py:41 augment", start, 10_000.0)
        for start in range(0, 10_000 * looks, 10_000)
    ]
    found = findings(lines, devices=None)["host.work"]
    assert found.status == status
