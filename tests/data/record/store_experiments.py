"""Keep some runs of `make experiments`: python store_experiments.py FOLDER.

FOLDER is what `benchmarks/experiments.py --folder` recorded into.
"""

import sys
from itertools import pairwise
from pathlib import Path

from storing import store, write_truth

DATA = Path(__file__).resolve().parents[1]
#: Where a run is kept → its folder below FOLDER.
KEPT = {
    "experiments/tf_prefetched": "tensorflow-prefetched-half-again",
    "experiments/tf_no_prefetch": "tensorflow-no_prefetch-half",
    "experiments/jax_debug": "jax-debug-whole",
}


def main(folder: Path) -> None:
    for name, run in KEPT.items():
        begun = [float(it) for it in (folder / run / "clock").read_text().split()]
        took = [round(1000 * (end - begin), 3) for begin, end in pairwise(begun)]
        store(folder / run / "log", DATA / name)
        write_truth(DATA / name, {"run": run, "begin_to_begin_ms": took})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
