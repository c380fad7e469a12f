"""Keep the last steps of a loop; the one that waits for its data is written down.

python examples/flight_recorder.py [LOGDIR]
stepscope report LOGDIR
"""

import sys
import time

import stepscope as ss

STEPS, SLOW = 60, 45


@ss.trace_function
def next_batch(step: int) -> list[int]:
    # As a slow disk would: one batch takes far longer than the others.
    time.sleep(0.5 if step == SLOW else 0.01)
    return list(range(1000))


def main(logdir: str) -> None:
    with ss.flight_recorder(logdir, slower_than=3) as recorder:
        for step in range(STEPS):
            with ss.StepTrace(step):
                sum(next_batch(step))
        # The steps of the last second are judged once a second.
        time.sleep(2)
    for written in recorder.written:
        print(f"{written.why}: {written.text}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "logs")
