"""What to do about work of the program itself on the host.

Definition: docs/advice/host_work.md.
"""

from __future__ import annotations

from typing import Final

from stepscope.advice.finding import Action

__all__ = [
    "ACTIONS",
    "ASKS",
    "CALLED_BACK",
    "EXCHANGES",
    "ONCE",
    "PIPELINE",
    "PREDICTS",
    "RARELY",
    "RUNS_OPS",
]

PIPELINE: Final = Action(
    cause="any",
    framework="TensorFlow",
    text="Where it makes the batch, move it into the input pipeline, which runs ahead "
    "on other threads.",
    code="dataset.map(work, num_parallel_calls=tf.data.AUTOTUNE)"
    ".prefetch(tf.data.AUTOTUNE)",
)
RARELY: Final = Action(
    cause="any",
    framework="any",
    text="Do it more rarely or on less data, or on another thread, while the next "
    "steps run.",
)
ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Vectorise it: work on whole arrays in place of loops over elements, with "
        "fewer and narrower copies.",
        recorder="framework",
    ),
    # Nsight Systems names functions of compiled files, and ranges, of which it does not
    # tell what they do.
    Action(
        cause="any",
        framework="any",
        text="Make it cheaper: a profiler of processors shows its lines. Do it once, "
        "on several threads or ahead of the step, or on the device.",
        code="perf record -g -- ./program; perf report",
        recorder="nsight",
    ),
    PIPELINE,
    Action(
        cause="any",
        framework="PyTorch",
        text="Where it makes the batch, move it into the dataset: the loader's workers "
        "do it ahead.",
        code="DataLoader(Dataset(work), num_workers=8, persistent_workers=True)",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Where it makes the batch, move it into the loader's workers, which do it "
        "ahead.",
        code="grain.DataLoader(…, operations=[Work()], worker_count=8)",
    ),
    RARELY,
    Action(
        cause="any",
        framework="any",
        text="Cache its results, or do it once, where it gives the same in each epoch.",
    ),
)
#: A function whose time is ops of the framework.
RUNS_OPS: Final = (
    Action(
        cause="any",
        framework="PyTorch",
        text="Run its ops on all tensors at once, in place and without gradients, in "
        "place of one tensor after the other; copy nothing that is only read, and read "
        "results back once.",
        code="torch._foreach_lerp_(averages, weights, 1 - decay)  # one call",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Compile it, so that its ops run as one graph.",
        code="@tf.function",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Compile it, so that its ops run as one program.",
        code="work = jax.jit(work)",
    ),
)
#: A function that runs the model and trains nothing: validation, or an agent that acts.
ASKS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Ask the model every n steps, or on less data; where each step needs its "
        "answer, ask for many at once, compiled and without gradients.",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Keep no graph of gradients for it.",
        code="with torch.inference_mode(): model(x)",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Compile it, so that its ops run as one graph.",
        code="answer = tf.function(model)",
    ),
)
CALLED_BACK: Final = (
    Action(
        cause="any",
        framework="JAX",
        text="Write in `jax.numpy` what the callback computes, so that it is compiled "
        "with the step, or compute it before the step and pass it: the compiled step "
        "waits for Python.",
    ),
)
PREDICTS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Call the model itself: each `predict` builds an input pipeline and "
        "traces functions anew, which pays for many batches and not for one.",
        code="model(x, training=False)",
    ),
    Action(
        cause="any",
        framework="any",
        text="Predict for many inputs at once, where they are known.",
    ),
)
EXCHANGES: Final = (
    Action(
        cause="any",
        framework="any",
        text="Exchange few large tensors in place of many small ones: put the "
        "gradients into one buffer, and exchange it while the backward pass runs.",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Let `DistributedDataParallel` do it: it fills buckets and exchanges them "
        "during the backward pass.",
        code="model = DistributedDataParallel(model, bucket_cap_mb=25)",
    ),
)
ONCE: Final = Action(
    cause="any",
    framework="any",
    text="Find what asks the operating system for it, and do that once, before the "
    "steps: take memory and open files there, and keep both.",
)
