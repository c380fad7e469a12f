"""Record a training loop in plain Python and NumPy.

python examples/plain_python.py [LOGDIR]
stepscope report LOGDIR
"""

import sys

import numpy as np

import stepscope as ss

STEPS, BATCH, FEATURES = 30, 256, 64


@ss.trace_function
def next_batch(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    inputs = random.normal(size=(BATCH, FEATURES))
    return inputs, inputs.sum(axis=1, keepdims=True)


def main(logdir: str) -> None:
    random = np.random.default_rng(0)
    weights = np.zeros((FEATURES, 1))
    with ss.Profile(logdir):
        for step in range(STEPS):
            with ss.Trace("train", step_num=step, _r=1):
                inputs, targets = next_batch(random)
                with ss.Trace("forward"):
                    error = inputs @ weights - targets
                with ss.Trace("backward"):
                    weights -= 0.1 * inputs.T @ error / BATCH
    print(f"loss {np.mean(error**2):.4f}; recorded into {logdir}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "logs")
