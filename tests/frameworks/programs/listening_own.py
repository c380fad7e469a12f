"""A program that listens with our server; a program, no test.

listening_own.py tensorflow | torch | plain [LOGDIR [PEER]] — trains until its standard
input closes. With LOGDIR, clients of TensorFlow and XProf may ask.
"""

from __future__ import annotations

import sys
import threading

import stepscope as ss

framework = sys.argv[1]
if framework == "torch":
    import torch

    rows = torch.ones(256, 256)

    def step() -> None:
        (rows @ rows).sum()

elif framework == "plain":

    def step() -> None:
        sum(range(1000))

else:
    import tensorflow as tf

    rows = tf.ones((256, 256))
    compiled = tf.function(lambda: tf.reduce_sum(rows @ rows))

    def step() -> None:
        compiled()


ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
step()
if len(sys.argv) > 2:
    server = ss.server.start(
        0, logdir=sys.argv[2], open_to="machine", peers=sys.argv[3:]
    )
else:
    server = ss.server.start(0)
sys.stdout.write(server.address + "\n")
sys.stdout.flush()
number = 0
# A pause, since who asks needs the processor too.
while not ended.wait(0.005):
    with ss.StepTrace(number):
        step()
    number += 1
