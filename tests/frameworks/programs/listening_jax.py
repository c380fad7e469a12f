"""A JAX program that listens for profiler clients; a program, no test.

listening_jax.py PORT — trains until its standard input is closed.
"""

from __future__ import annotations

import os
import sys
import threading

import jax
import jax.numpy as jnp

server = jax.profiler.start_server(int(sys.argv[1]))
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
step = jax.jit(lambda rows: (rows @ rows).sum())
rows = jnp.ones((256, 256))
step(rows).block_until_ready()
sys.stdout.write(f"{os.getpid()}\n")
sys.stdout.flush()
number = 0
# A pause, since who asks needs the processor too.
while not ended.wait(0.005):
    with jax.profiler.StepTraceAnnotation("train", step_num=number):
        step(rows).block_until_ready()
    number += 1
