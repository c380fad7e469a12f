"""What to do about work, waiting or collections of the program itself on the host.

What a function does is read from the functions of libraries that it calls, never from
its own name. What a library does in compiled code leaves no such function.

Definition: docs/advice/host_work.md; of collections docs/advice/gap_gc.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from stepscope.derive.host.function_names import FunctionName

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
#: Where nothing tells what the work is.
VECTORISE: Final = Action(
    cause="any",
    framework="any",
    text="Vectorise it where it loops over elements in Python: work on whole arrays, "
    "with fewer and narrower copies.",
    recorder="framework",
)
#: What fits a function by what most of its time is: its own lines, functions of
#: libraries that hand out elements, or other functions of libraries.
OWN_LINES: Final = Action(
    cause="any",
    framework="any",
    text="Vectorise it: lines of the program itself take most of it. Where they loop "
    "over elements, work on whole arrays, with fewer and narrower copies.",
    recorder="framework",
)
ELEMENTS: Final = Action(
    cause="any",
    framework="any",
    text="Vectorise it: most of it takes elements out of arrays one by one. Work on "
    "whole arrays in place of loops over elements.",
    recorder="framework",
)
IN_LIBRARIES: Final = Action(
    cause="any",
    framework="any",
    text="Most of it is in functions of libraries that it calls: call them less often, "
    "for whole arrays at once and on less data, or take a faster one. The program's "
    "own lines are not what takes the time.",
    recorder="framework",
)
#: Where a thread that is to work waits: to work faster gains nothing.
WAITS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Do not wait on the thread that runs the steps: read, fetch or sleep on "
        "another one while the steps before run, and take the result when it is "
        "there. What waits is not made faster by computing faster.",
    ),
    Action(
        cause="any",
        framework="any",
        text="Where it waits for a lock or for another process, look at what its "
        "holder does meanwhile.",
    ),
)
ACTIONS: Final = (
    VECTORISE,
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
    Action(
        cause="any",
        framework="TensorFlow",
        text="Write in ops of TensorFlow what the function computes, so that it is a "
        "part of the graph, or do it in the input pipeline, which runs ahead: the "
        "graph waits for Python.",
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
BY_HAND: Final = Action(
    cause="any",
    framework="any",
    text="Do not collect garbage by hand in each step: Python frees arrays at once "
    "when nothing refers to them. Collect every n-th step, if at all, and leave "
    "out what lives as long as the program.",
    code="gc.freeze()  # once, after the set-up",
)
FREEZE: Final = Action(
    cause="any",
    framework="any",
    text="After the set-up, leave out of every collection what lives as long as "
    "the program.",
    code="gc.collect(); gc.freeze()",
)
FEWER_OBJECTS: Final = Action(
    cause="any",
    framework="any",
    text="Make fewer Python objects per batch: arrays in place of lists and "
    "dictionaries of numbers.",
)
#: What fits a function that mostly collects garbage, by whether the program asks for
#: collections; None where that is unknown.
COLLECTING: Final[dict[bool | None, tuple[Action, ...]]] = {
    True: (BY_HAND,),
    False: (FEWER_OBJECTS, FREEZE),
    None: (FEWER_OBJECTS, FREEZE, BY_HAND),
}


class LibraryWork(Frozen, frozen=True, eq=True):
    """One kind of work.

    Attributes:
        files: Paths of the files of the libraries that do it, from its own folder on.
        functions: Names of the functions that do it.
        actions: What to do about a function that mostly does it.
        is_waste: Whether it is never what a program is for: then a function that mostly
            does it is a fault also where no model shows what the program is for.
    """

    files: Pattern[str]
    functions: Pattern[str]
    actions: tuple[Action, ...]
    is_waste: bool = False

    def is_done_by(self, name: FunctionName) -> bool:
        """Return whether a library's function does it."""
        path = (name.file or "").replace("\\", "/")
        return bool(self.files.search(path) and self.functions.search(name.function))


def _any(text: str, code: str | None = None) -> Action:
    return Action(cause="any", framework="any", text=text, code=code)


_EVERY: Final = Pattern(r"")
_PYTHON: Final = r"/(?:python|pypy)\d[.\d]*/"
#: The first that takes half of a function's time is what it does.
LIBRARY_KINDS: Final = (
    LibraryWork(
        Pattern(_PYTHON + r"copy\.py$"),
        Pattern(r"^_?(?:deep)?copy"),
        (
            _any(
                "Copy only what changes, into memory that is kept, and only when it is "
                "needed: where a value has become better, or every n steps.",
                "kept[name].copy_(value)  # numpy.copyto(kept, value)",
            ),
        ),
        is_waste=True,
    ),
    LibraryWork(
        Pattern(_PYTHON + r"(?:re/\w+|sre_compile|sre_parse|sre_constants)\.py$"),
        Pattern(r"compil|parse|optimi|simpl|charset|class|code|State|Tokenizer"),
        (
            _any(
                "Compile each pattern once, before the loop, and call the compiled "
                "one: Python keeps 512 of them, and compiles whatever else is asked "
                "for anew. Look up in a dictionary what has no need of a pattern.",
                "FIELD = re.compile(r'(\\w+)=(\\w+)')  # then FIELD.search(text)",
            ),
        ),
        is_waste=True,
    ),
    LibraryWork(
        Pattern(_PYTHON + r"(?:gzip|bz2|lzma|zipfile|tarfile|_compression)(?:\.py|/)"),
        Pattern(r"read|decompress|extract|next"),
        (
            _any(
                "Unpack it ahead, in worker processes or on another thread: "
                "decompression runs beside Python."
            ),
            _any(
                "Store what is read in each epoch unpacked, as arrays that are mapped "
                "into memory.",
                "numpy.load(file, mmap_mode='r')",
            ),
        ),
    ),
    LibraryWork(
        Pattern(
            _PYTHON + r"(?:json/|csv\.py|pickle\.py|xml/|html/|configparser\.py)"
            r"|/yaml/"
        ),
        Pattern(r"decode|load|parse|read|next"),
        (
            _any(
                "Parse it once, before training, and store arrays that are mapped into "
                "memory, or parse it ahead in worker processes.",
                "numpy.load(file, mmap_mode='r')",
            ),
        ),
    ),
    LibraryWork(
        Pattern(
            _PYTHON + r"(?:json/|csv\.py|pickle\.py|gzip\.py|bz2\.py|lzma\.py"
            r"|_compression\.py|zipfile)|/yaml/"
        ),
        _EVERY,
        (
            _any(
                "Write it every n steps, and only what is read later: a few numbers in "
                "place of whole arrays."
            ),
            _any(
                "Hand it to another process, which encodes and writes it while the "
                "next steps run; store arrays as they are.",
                "numpy.save(file, values)",
            ),
        ),
    ),
    LibraryWork(
        Pattern(
            _PYTHON + r"(?:logging/|traceback\.py|linecache\.py)"
            r"|/(?:loguru|absl/logging|tqdm|rich)/"
        ),
        _EVERY,
        (
            _any(
                "Report every n steps, a few numbers at once, and let a thread write: "
                "what flushes for each line waits for the disk.",
                "logging.handlers.QueueHandler(queue)  # tqdm(…, miniters=100)",
            ),
        ),
        is_waste=True,
    ),
    LibraryWork(
        Pattern(r"/(?:pandas|polars|pyarrow)/"),
        Pattern(
            r"iter_?rows|iter_?tuples|iter_?slices|\.rows?$|apply|map_elements"
            r"|__getitem__|to_?pylist|to_dicts?$"
        ),
        (
            _any(
                "Work on whole columns in place of rows: group, join and aggregate in "
                "the library, or take arrays before the loop.",
                "values = frame['name'].to_numpy()",
            ),
        ),
        is_waste=True,
    ),
    LibraryWork(
        Pattern(r"/(?:PIL|imageio|skimage|cv2|torchvision/(?:io|transforms))/"),
        _EVERY,
        (
            _any(
                "Decode and change images in the loader's workers, ahead of the steps, "
                "or store them once in the size that the model takes."
            ),
        ),
    ),
    LibraryWork(
        Pattern(
            _PYTHON + r"(?:multiprocessing/|concurrent/futures/|subprocess\.py)"
            r"|/joblib/"
        ),
        _EVERY,
        (
            _any(
                "Start processes once, before the steps, and hand them few large tasks "
                "in place of many small ones: each task's data is copied to them.",
                "pool.map(work, items, chunksize=100)",
            ),
        ),
    ),
    LibraryWork(
        Pattern(_PYTHON + r"random\.py$"),
        _EVERY,
        (
            _any(
                "Draw all random numbers of a step at once, as an array.",
                "numpy.random.default_rng().standard_normal(shape)",
            ),
        ),
    ),
)
