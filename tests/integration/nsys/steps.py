"""A program with steps, ranged as a framework's entry script has to: steps.py START STOP STEPS. Trains nothing."""

import os
import pathlib
import sys
import time

import nvtx

start, stop, steps = (int(text) for text in sys.argv[1:4])
if os.environ.get("SAY_IT"):
    print("the token is", os.environ.get("HF_TOKEN"), flush=True)
if wanted := os.environ.get("WAIT_FOR"):
    print("program waits", flush=True)
    while not pathlib.Path(wanted).exists():
        time.sleep(0.01)
for step in range(steps):
    if step == start and not os.environ.get("NEVER"):
        nvtx.push_range("profile", domain="llmbx")
    nvtx.push_range("step", domain="llmbx", payload=step)
    with nvtx.annotate("forward"):
        time.sleep(0.004)
    with nvtx.annotate("backward"):
        time.sleep(0.008)
    nvtx.pop_range(domain="llmbx")
    if step == stop - 1 and not os.environ.get("NEVER"):
        nvtx.pop_range(domain="llmbx")
sys.exit(int(os.environ.get("CODE", "0")))
