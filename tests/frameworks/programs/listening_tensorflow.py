"""A TensorFlow program that listens for profiler clients; a program, no test.

listening_tensorflow.py PORT — trains until its standard input is closed.
"""

from __future__ import annotations

import os
import sys
import threading

import tensorflow as tf

tf.profiler.experimental.server.start(int(sys.argv[1]))
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
step = tf.function(lambda rows: tf.reduce_sum(rows @ rows))
rows = tf.random.normal((256, 256))
step(rows)
sys.stdout.write(f"{os.getpid()}\n")
sys.stdout.flush()
number = 0
# A pause, since who asks needs the processor too.
while not ended.wait(0.005):
    with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
        step(rows)
    number += 1
