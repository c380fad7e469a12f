"""Record a loop, and put the report on it into a run of W&B or of MLflow.

python examples/logged_to_trackers.py wandb|mlflow [LOGDIR]
"""

import sys
import time

import stepscope as ss

STEPS = 12


def record(logdir: str) -> None:
    with ss.Profile(logdir):
        for step in range(STEPS):
            with ss.StepTrace(step):
                with ss.Trace("next_batch"):
                    time.sleep(0.02)
                sum(range(20_000))


def to_wandb(logdir: str) -> None:
    import wandb  # noqa: PLC0415 - one of the two is enough

    with wandb.init(project="stepscope-example") as run:
        ss.log_to(run, logdir)


def to_mlflow(logdir: str) -> None:
    import mlflow  # noqa: PLC0415 - one of the two is enough

    with mlflow.start_run() as run:
        ss.log_to(run, logdir)


def main(tracker: str, logdir: str) -> None:
    record(logdir)
    {"wandb": to_wandb, "mlflow": to_mlflow}[tracker](logdir)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "logs")
