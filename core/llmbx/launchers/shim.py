"""Render the rank shim: POSIX sh that runs inside the container, determines the rank and starts the program."""

from __future__ import annotations

import re
import shlex

from ..errors import UsageError
from ..model.launch import RANK_SOURCES, Launch, Phase, Prefix
from ..model.run_folder import NODE_SCRIPT

_TERM = re.compile(r"(?P<word>all|first|mid|last)|(?P<low>\d+)(-(?P<high>\d+))?")

_HEAD = """\
#!/bin/sh
# Runs one rank of the phase "{role}": determines which rank it is and starts the program.
cd "${{0%/*}}" || exit 1
umask go-w # the program may run in a container with a umask of its own
trap '' USR1 # the signal for stack dumps must not kill programs that do not handle it
"""

_RANK = "".join(f"{name}=${{{name}:-${{{source}:-{default}}}}}\n" for name, (source, default) in RANK_SOURCES.items())

_EXPORT = f"""\
LLMBX_LOCAL_WORLD_SIZE=${{LLMBX_LOCAL_WORLD_SIZE%%[(,]*}}
LLMBX_MASTER_PORT=${{LLMBX_MASTER_PORT:-29500}}
export {" ".join(RANK_SOURCES)} LLMBX_MASTER_PORT
"""

_NODE = f"""\
[ "$LLMBX_LOCAL_RANK" -ne 0 ] || /bin/sh ./{NODE_SCRIPT} 2> /dev/null # describe this node
"""

_NUMA = """\
# Bind the rank to the NUMA node of its GPU or, if the machine does not tell which one it is, to the recipe's.
gpu_bus() { # PCI address of the rank's GPU; its domain has the eight digits of nvidia-smi, not the four of Linux
  gpu=${CUDA_VISIBLE_DEVICES:-$LLMBX_LOCAL_RANK}
  case $gpu in *,*) gpu=$(echo "$gpu" | cut -d , -f $((LLMBX_LOCAL_RANK + 1))) ;; esac
  timeout 30 nvidia-smi --id="$gpu" --query-gpu=pci.bus_id --format=csv,noheader 2> /dev/null | tr A-F a-f
}
can_bind() { # NUMA node: true if it has cores and numactl can bind the rank to it
  cores=$(cat "/sys/devices/system/node/node$1/cpulist" 2> /dev/null) # dash's read gets nothing from this file
  [ -n "$cores" ] && numactl "--cpunodebind=$1" "--membind=$1" true 2> /dev/null
}
by=GPU bus=$(gpu_bus)
node=$(cat "/sys/bus/pci/devices/${bus#????}/numa_node" 2> /dev/null)
can_bind "$node" || { by=recipe node=$((LLMBX_LOCAL_RANK / RANKS)); can_bind "$node"; } || by=''
if [ -n "$by" ]; then
  set -- numactl "--cpunodebind=$node" "--membind=$node" "$@"
else
  why='numactl may not bind it'
  [ -n "$cores" ] || why="there is no NUMA node $node with cores"
  command -v numactl > /dev/null || why='numactl is not installed'
  case "$LLMBX_RANK $LLMBX_NODE_RANK $cores" in # the first rank, and those of the first node that lack their NUMA node
    '0 '* | *' 0 ') echo "llmbx: warning: rank $LLMBX_RANK is not bound to a NUMA node: $why" ;;
  esac
fi
[ "$LLMBX_LOCAL_RANK" -ne 0 ] || echo "numa ${by:-off: $why}" >> "node-$LLMBX_NODE_RANK.txt"
"""


def shim_name(phase: Phase) -> str:
    """Return the name of the shim's file in the run folder."""
    return f"rank-{phase.role}.sh"


def render_shim(phase: Phase, launch: Launch) -> str:
    """Render the shim of one phase. Raises `UsageError` for a rank selector that does not match the phase."""
    lines = [_HEAD.format(role=phase.role), _RANK, _EXPORT, _NODE]
    lines += [_companion(companion) for companion in launch.companions if not companion.before]
    lines.append(f"set -- {shlex.join(phase.argv)}\n")
    world = launch.ranks_of(phase)
    lines += [_prefix(prefix, world) for prefix in reversed(phase.prefixes)]
    if launch.ranks_per_numa_node:
        lines.append(_NUMA.replace("RANKS", str(launch.ranks_per_numa_node)))
    return "".join([*lines, 'exec "$@"\n'])


def _companion(companion: Launch.Companion) -> str:
    """Start a companion, detached from the rank: a process that it does not know must not be its child."""
    out = f'< /dev/null > /dev/null 2> "{companion.name}/node-$LLMBX_NODE_RANK.err"'
    start = f"(LLMBX_COMPANION_OF=$$ {shlex.join(companion.argv)} {out} &)"
    beside = f"mkdir -p {companion.name} && {start}"
    return f'[ "$LLMBX_LOCAL_RANK" -ne 0 ] || {{ {beside}; }} 2> /dev/null # beside the ranks of this node\n'


def _prefix(prefix: Prefix, world: int) -> str:
    put = f'set -- {shlex.join(prefix.argv)} "$@"'
    condition = rank_condition(prefix.ranks, world)
    if prefix.local_first:
        condition = " && ".join(filter(None, ['[ "$LLMBX_LOCAL_RANK" -eq 0 ]', condition]))
    return f"if {condition}; then {put}; fi\n" if condition else f"{put}\n"


def rank_condition(selector: str, world: int) -> str:
    """Return the shell condition that `LLMBX_RANK` is among the ranks of `selector`; empty if all ranks are.

    `world` is the number of ranks. Raises `UsageError` for an invalid selector or a rank that does not exist.
    """
    ranges = [_range(term.strip(), selector, world) for term in selector.split(",")]
    if (0, world - 1) in ranges:
        return ""
    tests = [_test(low, high) for low, high in dict.fromkeys(ranges)]
    return tests[0] if len(tests) == 1 else "{ " + " || ".join(tests) + "; }"


def _range(term: str, selector: str, world: int) -> tuple[int, int]:
    match = _TERM.fullmatch(term)
    if match is None:
        raise UsageError(
            f"ranks {selector!r}: expected all, first, mid, last, a rank (8) or a range (0-7), got {term!r}"
        )
    words = {"all": (0, world - 1), "first": (0, 0), "mid": (world // 2, world // 2), "last": (world - 1, world - 1)}
    if match["word"]:
        return words[match["word"]]
    low, high = int(match["low"]), int(match["high"] or match["low"])
    if high < low:
        raise UsageError(f"ranks {selector!r}: {term} ends before it starts")
    if high >= world:
        raise UsageError(f"ranks {selector!r}: there is no rank {high}, the run has ranks 0 to {world - 1}")
    return low, high


def _test(low: int, high: int) -> str:
    if low == high:
        return f'[ "$LLMBX_RANK" -eq {low} ]'
    return f'[ "$LLMBX_RANK" -ge {low} ] && [ "$LLMBX_RANK" -le {high} ]'
