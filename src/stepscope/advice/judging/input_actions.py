"""What to do where a step waits for its batches: by what holds them up.

Definition: docs/advice/input_bound.md.
"""

from __future__ import annotations

from typing import Final

from stepscope.advice.finding import Action

ACTIONS: Final = (
    Action(
        cause="fetch",
        framework="TensorFlow",
        text="Transform in parallel and fetch ahead.",
        code="dataset.map(f, num_parallel_calls=tf.data.AUTOTUNE)"
        ".prefetch(tf.data.AUTOTUNE)",
    ),
    Action(
        cause="fetch",
        framework="PyTorch",
        text="Load in worker processes and fetch ahead.",
        code="DataLoader(dataset, num_workers=8, prefetch_factor=4, "
        "persistent_workers=True)",
    ),
    Action(
        cause="fetch",
        framework="JAX",
        text="Build batches in other threads and keep two ahead.",
        code="grain.DataLoader(…, worker_count=8, worker_buffer_size=2)",
    ),
    Action(
        cause="fetch",
        framework="Python",
        text="Make the next batch in another process while this step computes.",
        code="batch, ahead = ahead.result(), pool.submit(make_batch, step + 1)"
        "  # pool = ProcessPoolExecutor(1)",
    ),
    Action(
        cause="fetch",
        framework="any",
        text="Cache what does not change between epochs, and move work that can be "
        "done once out of the pipeline.",
    ),
    Action(
        cause="unfed",
        framework="any",
        text="Make the next batch while this step computes, in worker processes or "
        "threads. To be sure that it is what the silence is, put a range around the "
        "fetch and record again.",
    ),
    Action(
        cause="transfer",
        framework="TensorFlow",
        text="Copy the next batch while this step computes.",
        code="dataset.apply(tf.data.experimental.prefetch_to_device('/gpu:0'))",
    ),
    Action(
        cause="transfer",
        framework="PyTorch",
        text="Pin the batch and copy it without waiting.",
        code="DataLoader(…, pin_memory=True); batch.to(device, non_blocking=True)",
    ),
    Action(
        cause="transfer",
        framework="JAX",
        text="Put the next batch on the device before this step is waited for.",
        code="next_batch = jax.device_put(next(it))",
    ),
    Action(
        cause="transfer",
        framework="any",
        text="Send fewer bytes: keep images as uint8 and convert them on the device.",
    ),
)
TO_PIN: Final = tuple(one for one in ACTIONS if "pin_memory" in (one.code or ""))
#: Where batches are copied from pinned memory already.
BESIDE: Final = (
    Action(
        cause="transfer",
        framework="PyTorch",
        text="The batch is copied from pinned memory already: copy the next one on a "
        "stream of its own while this step computes.",
        code="with torch.cuda.stream(copies): ahead = next(batches).to(device, "
        "non_blocking=True)",
    ),
)
#: Where data comes piece by piece, between the kernels that use it.
PIECES: Final = (
    Action(
        cause="transfer",
        framework="any",
        text="Keep on the device what is the same in every step, such as weights; "
        "where it does not fit, send it in a narrower type, or use more devices.",
    ),
)
#: Where Python makes the elements: threads do not help, for one runs at a time.
NATIVE: Final = (
    Action(
        cause="fetch",
        framework="TensorFlow",
        text="Replace Python in the pipeline by ops of the framework, or run it once, "
        "before training, and read what it made: while it computes it holds the "
        "interpreter's lock, so that calls in parallel take turns.",
    ),
)
#: Where Python makes them for a dataset of Keras, which can hand it to processes.
KERAS_WORKERS: Final = (
    Action(
        cause="fetch",
        framework="TensorFlow",
        text="Let the dataset's own worker processes make its batches ahead, and read "
        "once what is the same in every epoch.",
        code="PyDataset.__init__(self, workers=4, use_multiprocessing=True)",
    ),
)
CACHE: Final = (
    Action(
        cause="fetch",
        framework="TensorFlow",
        text="Nothing is cached: keep what is the same in every epoch, where it fits "
        "into memory.",
        code="dataset.map(decode).cache()  # and what is random after it",
    ),
)
#: Where nothing is transformed, nothing can be so in parallel.
HANDED_OVER: Final = (
    Action(
        cause="fetch",
        framework="any",
        text="The pipeline transforms nothing and fetches ahead, and its batches still "
        "come late: see which other work takes the host's cores, and send fewer bytes.",
    ),
)
#: Where elements are made in parallel, and a part of each batch when it is asked for.
TO_FETCH_AHEAD: Final = (
    Action(
        cause="fetch",
        framework="TensorFlow",
        text="Make batches ahead: the pipeline works in parallel, and does not end "
        "with a prefetch.",
        code="dataset.prefetch(tf.data.AUTOTUNE)",
    ),
)
#: Where a parallel stage is called for each element, and calls are most of its work.
WHOLE_BATCHES: Final = (
    Action(
        cause="fetch",
        framework="TensorFlow",
        text="Batch before mapping, and let the function work on whole batches: it is "
        "called for each element, and works only briefly each time.",
        code="dataset.batch(n).map(f_of_a_batch)",
    ),
)
#: What remains where elements are made in parallel and ahead.
REMAINING: Final = (
    Action(
        cause="fetch",
        framework="any",
        text="The batches are made in parallel and ahead already, and still come late: "
        "make each cheaper (fewer bytes, cheaper transformations, a faster store), or "
        "give the making more cores.",
    ),
)
#: Where elements lay ready, and what hands them over came late.
WERE_READY: Final = (
    Action(
        cause="fetch",
        framework="any",
        text="The batches were ready when they were asked for, and were handed over "
        "late: see which other work takes the host's cores.",
    ),
)
#: Where a library makes the batches in threads of its own.
IN_OWN_THREADS: Final = (
    Action(
        cause="fetch",
        framework="any",
        text="NVIDIA DALI makes the batches in threads of its own: give it more of "
        "them, and let it make batches further ahead.",
        code="pipeline(batch_size=…, num_threads=8, prefetch_queue_depth=4)",
    ),
)
#: Where processes make the batches, fewer of them than there are cores.
FEW_WORKERS: Final = (
    Action(
        cause="fetch",
        framework="PyTorch",
        text="Give the loader more worker processes, as long as cores are idle: those "
        "that it has make its batches ahead, and too slowly.",
        code="DataLoader(dataset, num_workers=8, prefetch_factor=4, "
        "persistent_workers=True)",
    ),
    Action(
        cause="fetch",
        framework="any",
        text="Make each batch cheaper: fewer bytes, cheaper transformations, a faster "
        "store.",
    ),
)
#: Where the step waits for what others send: they make the batches already.
BY_OTHER_PROCESSES: Final = (
    Action(
        cause="fetch",
        framework="any",
        text="The step waits for what another process sends, or a store behind a "
        "network (`poll`, `recv`), and makes no batch itself. Where these are worker "
        "processes, let more of them work, as long as cores are free, and further "
        "ahead; where it is a store, ask it in worker processes, ahead.",
        code="DataLoader(dataset, num_workers=8, prefetch_factor=4, "
        "persistent_workers=True)  # in PyTorch",
    ),
    FEW_WORKERS[1],
)
#: Where the step waits for another thread of the program.
BY_OTHER_THREADS: Final = (
    Action(
        cause="fetch",
        framework="any",
        text="Another thread makes the batches already, and the step waits for it: let "
        "several threads make them, and begin more than a batch ahead. Where it is "
        "Python code, let processes do it: Python runs on one thread at a time.",
    ),
    FEW_WORKERS[1],
)
#: Where a wait may be for a batch: nothing but its copy afterwards says so.
TO_BE_SURE: Final = (
    Action(
        cause="unfed",
        framework="any",
        text="To be sure that the wait is for a batch, put a range around the fetch "
        "and record again.",
    ),
)
FETCH: Final = tuple(action for action in ACTIONS if action.cause == "fetch")
ANY_FETCH: Final = tuple(one for one in FETCH if one.framework == "any")
