"""Secrets are removed from the process's environment, for child processes and for readers of /proc."""

from __future__ import annotations

import json
import os
import subprocess
import sys

PROGRAM = """
import json, os, pathlib, subprocess, sys
from llmbx.secrets import forget, known, scrub

def seen():
    own = pathlib.Path("/proc/self/environ").read_bytes()
    child = subprocess.run([sys.executable, "-c", "import os; print(dict(os.environ))"], capture_output=True, text=True)
    return [b"hf_planted" in own, "hf_planted" in child.stdout, "hf_planted" in str(dict(os.environ))]

before = seen()
forget(os.environ)
left = {name: os.environ.get(name) for name in ("HF_TOKEN", "MY_API_KEY", "PLAIN")}
print(json.dumps([before, seen(), left, scrub("a hf_planted_0123 b", {}), known({}), known({"MY_API_KEY": "new"})]))
"""


def test_nobody_finds_a_forgotten_secret() -> None:
    env = {**os.environ, "HF_TOKEN": "hf_planted_0123", "MY_API_KEY": "", "PLAIN": "kept"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
    before, after, left, scrubbed, known, with_new = json.loads(done.stdout)
    assert before == [True, True, True] and after == [False, False, False]
    assert left == {"HF_TOKEN": None, "MY_API_KEY": "", "PLAIN": "kept"}
    assert scrubbed == "a *** b"
    assert known["HF_TOKEN"] == "hf_planted_0123" and with_new == {**known, "MY_API_KEY": "new"}
