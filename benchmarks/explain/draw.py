"""Draw the faults, and which half of them the rules may be tuned with: tuning.toml and held_out.toml, by a seed.

    python benchmarks/explain/draw.py FOLDER

Each kind is drawn twice, with other ranks, sizes and times, and the halves get one of each. What must be said of a
fault (`causes`) is written down before any rule and before any run. unseen.toml has others of the same kinds, drawn
after the first try of the half that was held out, before the rules were changed by it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEED, SEED_OF_UNSEEN = 40, 41
WINDOW = range(10, 110)
"""Zero-based steps that are measured."""
Fault = dict[str, Any]
Chance = random.Random
LAST = WINDOW[-1]

NETWORK = {"network": True}
DISK = {"disk": {"blocks": 1}}


def fault(causes: tuple[str, int | None], **parts: Any) -> Fault:
    """Return a fault of one cause; `parts` are what is injected and under which conditions."""
    return {"causes": [{"id": causes[0], "rank": causes[1]}], **parts}


def contention(draw: Chance, rank: int, second: bool) -> Fault:
    hog = {"do": "hog", "rank": rank, "processes": 2 if second else 1, "busy": draw.uniform(0.6, 1)}
    return fault(("cpu-contention", rank), outside=[hog])


def limit(draw: Chance, rank: int, second: bool) -> Fault:
    if second:
        whole = {"do": "quota", "rank": None, "cores": draw.uniform(0.9, 1.3)}
        return fault(("cpu-limit", None), outside=[whole])
    return fault(("cpu-limit", rank), outside=[{"do": "quota", "rank": rank, "cores": draw.uniform(0.4, 0.65)}])


def paused(draw: Chance, rank: int, second: bool) -> Fault:
    for_s, every_s = (0.5, 2.0) if second else (draw.uniform(0.1, 0.2), draw.uniform(0.5, 0.9))
    return fault(("paused-process", rank), outside=[{"do": "stop", "rank": rank, "every_s": every_s, "for_s": for_s}])


def pressure(draw: Chance, rank: int, second: bool) -> Fault:
    memory = {"ranks": [rank], "file_mb": 64, "pages": draw.choice([300, 500]) * (2 if second else 1)}
    return fault(
        ("memory-pressure", rank),
        condition={"memory": memory},
        outside=[{"do": "memory", "rank": rank, "beyond_mb": draw.choice([8, 16])}],
    )


def swap(draw: Chance, rank: int, second: bool) -> Fault:
    memory = {"ranks": [rank], "held_mb": 200, "pages": draw.choice([1500, 2500]) * (2 if second else 1)}
    return fault(
        ("swap", rank),
        condition={"memory": memory},
        outside=[{"do": "memory", "rank": rank, "beyond_mb": -draw.choice([100, 150]), "swap": True}],
    )


def loading(draw: Chance, rank: int, second: bool) -> Fault:
    if second:
        return fault(("data-loading", None), inside={"loader": {"ranks": None, "busy_ms": draw.uniform(5, 12)}})
    return fault(("data-loading", rank), inside={"loader": {"ranks": [rank], "sleep_ms": draw.uniform(5, 15)}})


def saving(draw: Chance, rank: int, second: bool) -> Fault:
    return fault(("checkpoint", None), settings={"save_every": draw.randint(15, 30) if second else draw.randint(6, 12)})


def evaluating(draw: Chance, rank: int, second: bool) -> Fault:
    return fault(
        ("evaluation", None),
        settings={"evaluate_every": draw.randint(12, 25), "evaluated": draw.randint(30, 60) if second else 20},
    )


def garbage(draw: Chance, rank: int, second: bool) -> Fault:
    ranks = None if second else [rank]
    inside = {"ranks": ranks, "objects": draw.choice([500_000, 800_000]), "every": draw.randint(3, 7)}
    return fault(("garbage-collection", None if second else rank), inside={"garbage": inside})


def latency(draw: Chance, rank: int, second: bool) -> Fault:
    relay = {"do": "relay", "delay_ms": draw.uniform(8, 15) if second else draw.uniform(3, 6)}
    return fault(("network-latency", None), condition=NETWORK, outside=[relay])


def loss(draw: Chance, rank: int, second: bool) -> Fault:
    relay = {"do": "relay", "lost": draw.uniform(0.03, 0.05) if second else draw.uniform(0.01, 0.02)}
    return fault(("network-loss", None), condition=NETWORK, outside=[relay])


def fallback(draw: Chance, rank: int, second: bool) -> Fault:
    rate = {"do": "rate", "mbit": draw.choice([400, 600, 900]), "interface": "slow" if second else "fast"}
    inside = {"interface": "slow"} if second else {}
    return fault(("network-fallback", None), condition=NETWORK, outside=[rate], inside=inside, against=True)


def disk(draw: Chance, rank: int, second: bool) -> Fault:
    throttle = {"do": "disk", "rank": rank, "mb_per_s": draw.uniform(4, 6) if second else draw.uniform(2, 3.5)}
    return fault(("disk", rank), condition=DISK, outside=[throttle])


def threads(draw: Chance, rank: int, second: bool) -> Fault:
    ranks = None if second else [rank]
    return fault(
        ("threads", None if second else rank),
        inside={"threads": {"ranks": ranks, "count": 2 if second else draw.choice([3, 4])}},
    )


def slow(draw: Chance, rank: int, second: bool) -> Fault:
    first = draw.randint(30, 50) if second else 0
    return fault(("slow-rank", rank), inside={"busy": {"ranks": [rank], "ms": draw.uniform(15, 60), "first": first}})


def recompute(draw: Chance, rank: int, second: bool) -> Fault:
    usual = {"depth": 5} if second else {}
    return fault(("recompute", None), usual=usual, settings={"recompute": True}, against=True)


def fell_back(draw: Chance, rank: int, second: bool) -> Fault:
    usual = {"precision": "bf16", "rows": 8, "depth": 3 if second else 5}
    return fault(("dtype-fallback", None), usual=usual, settings={"precision": "fp32"}, against=True)


def wrong(draw: Chance, rank: int, second: bool) -> Fault:
    settings = {"context": draw.choice([48, 64])} if second else {"depth": draw.choice([4, 5])}
    return fault(("wrong-work", None), settings=settings, against=True)


def compiling(draw: Chance, rank: int, second: bool) -> Fault:
    shapes = {"ranks": None, "every": draw.randint(5, 9), "sizes": 7, "first": 20 if second else 0}
    return fault(("compile", None), usual={"compiled": True}, inside={"shapes": shapes})


def bubble(draw: Chance, rank: int, second: bool) -> Fault:
    usual = {"kind": "pipeline", "rows": 32, "microbatches": 8}
    return fault(("bubble", None), usual=usual, settings={"microbatches": 2 if second else 1}, against=True)


def imbalance(draw: Chance, rank: int, second: bool) -> Fault:
    share = draw.uniform(0.7, 0.75) if second else draw.uniform(0.8, 0.9)
    shares = [share if number == rank else 1 - share for number in range(2)]
    usual = {"kind": "experts", "rows": 8}
    return fault(("expert-imbalance", rank), usual=usual, inside={"router": {"ranks": None, "shares": shares}})


def warming(draw: Chance, rank: int, second: bool) -> Fault:
    half = draw.uniform(18, 25) if second else draw.uniform(8, 12)
    return fault(("warm-up", None), inside={"warm_up": {"ranks": None, "ms": draw.uniform(150, 300), "half": half}})


def drifting(draw: Chance, rank: int, second: bool) -> Fault:
    drift = {"ranks": None, "ms_per_step": draw.uniform(0.4, 1.2), "first": draw.randint(0, 20)}
    return fault(("drift", None), inside={"drift": drift})


KINDS: tuple[Callable[[Chance, int, bool], Fault], ...] = (
    contention, limit, paused, pressure, swap, loading, saving, evaluating, garbage, latency, loss, fallback,
    disk, threads, slow, recompute, fell_back, wrong, compiling, bubble, imbalance, warming, drifting,
)  # fmt: skip
BRIDGE: tuple[Callable[[Chance, int, bool], Fault], ...] = (contention, paused)
"""Tried with Megatron-Bridge's mini, too."""
TOGETHER: tuple[Callable[[Chance, int, bool], Fault], ...] = (
    contention, limit, paused, loading, saving, evaluating, garbage, latency, loss, disk, slow, drifting,
)  # fmt: skip
"""Faults of pairs: of one training, and on one rank, as what two ranks lose at the same time is lost once."""
PAIRS = 6
"""In each half."""


def late_with_experts(draw: Chance) -> Fault:
    """Return a rank that is late for another reason than what its expert gets. Not of the first draw."""
    usual = {"kind": "experts", "rows": 8}
    return {**slow(draw, draw.randrange(2), False), "usual": usual, "framework": "mini", "name": "experts-slow-rank"}


def name_of(drawn: Fault) -> str:
    """Return the ids of a fault's causes."""
    return "+".join(cause["id"] for cause in drawn["causes"])


def merged(first: Fault, second: Fault) -> Fault:
    """Return both faults at once."""
    both: Fault = {"parts": [first, second]}
    for key in ("condition", "usual", "settings", "inside"):
        both[key] = {**first.get(key, {}), **second.get(key, {})}
    for key in ("causes", "outside"):
        both[key] = [*first.get(key, []), *second.get(key, [])]
    return both


def draw_all(draw: Chance) -> tuple[list[Fault], list[Fault]]:
    """Return the two halves."""
    halves: tuple[list[Fault], list[Fault]] = ([], [])
    for kinds, framework in ((KINDS, "mini"), (BRIDGE, "bridge")):
        for kind in kinds:
            first = draw.randrange(2)
            ranks = draw.sample([0, 1], 2)
            both = [{**kind(draw, rank, bool(number)), "framework": framework} for number, rank in enumerate(ranks)]
            for half, drawn in zip(halves, both if first == 0 else both[::-1], strict=True):
                half.append(drawn)
    pairs: set[frozenset[str]] = set()
    while len(pairs) < 2 * PAIRS:
        rank, second = draw.randrange(2), bool(draw.randrange(2))
        both = [kind(draw, rank, second) for kind in draw.sample(TOGETHER, 2)]
        names = frozenset(map(name_of, both))
        if names not in pairs:
            halves[len(pairs) % 2].append({**merged(*both), "framework": "mini"})
            pairs.add(names)
    return halves


def write(half: list[Fault], title: str, path: Path) -> None:
    """Write a list as TOML: one fault a table."""
    lines = [f"# {title}."]
    counts: dict[str, int] = {}
    for drawn in half:
        drawn = dict(drawn)
        name = drawn.pop("name", ("bridge-" if drawn["framework"] == "bridge" else "") + name_of(drawn))
        counts[name] = counts.get(name, 0) + 1
        number = f"-{counts[name]}" if counts[name] > 1 else ""
        lines += ["", "[[faults]]", f'name = "{name}{number}"']
        lines += [f"{key} = {toml(value)}" for key, value in drawn.items() if value not in ({}, [])]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


def toml(value: Any) -> str:
    """Return a value as TOML; None is left out of tables."""
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if item is not None}
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in kept.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.3g}" if "." in f"{value:.3g}" else f"{value:.3g}.0"
    return f'"{value}"' if isinstance(value, str) else str(value)


def main() -> None:
    """Write both halves."""
    folder = Path(sys.argv[1])
    tuning, held_out = draw_all(Chance(SEED))
    drawn = f"drawn by draw.py with the seed {SEED}, before the first rule and the first run"
    write([*tuning, late_with_experts(Chance(SEED))], f"Faults for tuning: {drawn}", folder / "tuning.toml")
    write(held_out, f"Faults held out: {drawn}", folder / "held_out.toml")
    singles_and_pairs, more = draw_all(Chance(SEED_OF_UNSEEN))
    pairs = [fault for fault in singles_and_pairs if "parts" in fault]
    drawn = f"drawn by draw.py with the seed {SEED_OF_UNSEEN}, after the first try and before the rules changed"
    write(
        [*pairs, late_with_experts(Chance(SEED_OF_UNSEEN)), *more[::-1]],
        f"Faults that no rule was tuned with: {drawn}",
        folder / "unseen.toml",
    )


if __name__ == "__main__":
    main()
