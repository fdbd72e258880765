"""Count the operations of a rank that trains with PyTorch: started in a run folder, in place of the rank's program.

Writes operations.json: name of a module -> operations of its forward and backward passes, in the whole training. The
name "Global" stands for all modules.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

from torch.utils.flop_counter import FlopCounterMode

if __name__ == "__main__":
    program = Path("code/train.py").resolve()
    sys.argv, sys.path[0] = [str(program)], str(program.parent)
    with FlopCounterMode(display=False) as counter:
        runpy.run_path(str(program), run_name="__main__")
    counts = {name: sum(by_operation.values()) for name, by_operation in counter.get_flop_counts().items()}
    Path("operations.json").write_text(json.dumps(counts))
