"""What fits a function whose time goes to one kind of work of a known library.

What a function does is read from the functions of libraries that it calls, never from
its own name. What a library does in compiled code leaves no such function.

Definition: docs/advice/host_work.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from stepscope.derive.host.function_names import FunctionName

__all__ = ["LIBRARY_KINDS", "LibraryWork"]


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
