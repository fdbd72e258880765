"""Count the operations of MaxText's training step in its jaxpr: started in a run folder like the rank's program.

Writes operations.json: [name, operations] of every matrix product, and trains nothing. The name is JAX's name stack:
the einsum that a product belongs to, and the transformations (jvp, transpose, recomputation); it may be empty.
"""

from __future__ import annotations

import json
import math
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
from maxtext.utils import maxtext_utils


def products(jaxpr: Any, times: int = 1) -> Iterator[tuple[str, float]]:
    """Every matrix product of a jaxpr and of those inside it; the body of a loop counts as often as it runs."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            flops = 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(left[axis] for axis in contracted)
            yield str(equation.source_info.name_stack), float(times * flops)
        inner = times * equation.params.get("length", 1) if equation.primitive.name == "scan" else times
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            body = getattr(value, "jaxpr", value)
            if hasattr(body, "eqns"):
                yield from products(body, inner)


def count(config: Any, step: Any, arguments: Any) -> None:
    """Called by MaxText before it compiles the step."""
    traced = jax.make_jaxpr(step)(*arguments)
    Path("operations.json").write_text(json.dumps([*products(traced.jaxpr)]))
    sys.exit(0)


if __name__ == "__main__":
    maxtext_utils.maybe_dump_jaxpr = count
    program = Path("code/train.py").resolve()
    sys.argv[0], sys.path[0] = str(program), str(program.parent)
    runpy.run_path(str(program), run_name="__main__")
