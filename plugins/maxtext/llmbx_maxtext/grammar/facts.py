"""Events in MaxText's log: versions, parameters, estimated memory, fatal errors, and llmbx's own lines.

Kinds of event: `fact` (`jax`, `jaxlib`, `parameters`, `estimated_memory_gb`, and what `Config param` lines state: the
batch, the sequence, the layers, the devices, the data type), `note` (the state of a PGLE profile),
`validation` (`loss`), `compilation` (`seconds`),
`phase_time` (the step time of the run that collected the profile), and the fatal ones `nan`, `config_error` and `entry`
(the entry script could not start the run or convert the profile).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from llmbx.api import Event, read_real, read_whole, rounded_range

Facts = dict[str, str | int | float]


def _billions(match: re.Match[str]) -> Facts:
    count = rounded_range(read_real(match["billions"]) * 1e9)
    return {"parameters": count, "resolution": 1e9 * 10.0 ** -len(match["decimals"])}


_RULES: tuple[tuple[str, bool, re.Pattern[str], Callable[[re.Match[str]], Facts]], ...] = (
    ("entry", True, re.compile(r"llmbx: error: (?P<what>.+)"), lambda m: {}),
    ("note", False, re.compile(r"llmbx: .{0,200}PGLE profile .+"), lambda m: {}),
    ("phase_time", False, re.compile(r"llmbx: its collect phase took (?P<seconds>\d+(?:\.\d*)?) s a step"),
     lambda m: {"role": "collect", "step_time_s": read_real(m["seconds"])}),
    ("nan", True, re.compile(r"Aborting training due to (?:NaN|Inf) loss"), lambda m: {}),
    ("config_error", True, re.compile(r"MAXTEXT CONFIG ERROR: .+"), lambda m: {}),
    ("fact", False, re.compile(r"System Information: (?P<what>Jax|Jaxlib) Version: (?P<version>\S+)"),
     lambda m: {m["what"].lower(): m["version"]}),
    ("fact", False, re.compile(r"number parameters: (?P<billions>\d+\.(?P<decimals>\d+)) billion"),
     lambda m: _billions(m)),
    ("fact", False, re.compile(r"\bNum_devices: (?P<count>\d+), shape"),
     lambda m: {"world_size": read_whole(m["count"])}),
    ("fact", False, re.compile(r"System Information: Jax Backend: (?P<backend>\w+)"),
     lambda m: {"backend": m["backend"]}),
    ("validation", False, re.compile(r"Completed eval after train step \d+, loss=(?P<loss>-?(?:nan|inf|\d+\.\d+))"),
     lambda m: {"loss": read_real(m["loss"])}),
    ("compilation", False, re.compile(r"Finished XLA compilation of \S.{0,200}? in (?P<seconds>\d+(?:\.\d*)?) sec"),
     lambda m: {"seconds": read_real(m["seconds"])}),
    ("fact", False, re.compile(r"\[train\] Total estimated memory size: (?P<gb>\d+(?:\.\d*)?) GB"),
     lambda m: {"estimated_memory_gb": read_real(m["gb"])}),
)  # fmt: skip

SIGNS = (
    "llmbx: ", "Aborting", "CONFIG ERROR", "number param", "Version:", "estimated memory", "Config param ",
    "Num_devices", "Jax Backend", "Completed eval", "XLA compilation",
)  # fmt: skip
"""Texts of which a line with an event has one."""

_NUMBERS = {
    "global_batch_size_to_train_on": "global_batch_size",
    "max_target_length": "sequence_length",
    "num_decoder_layers": "layers",
    "emb_dim": "hidden_size",
    "vocab_size": "vocab_size",
    "gradient_accumulation_steps": "microbatches",
}
_PARAM = re.compile(rf"Config param (?P<name>{'|'.join(_NUMBERS)}|dtype|quantization): (?P<value>\S*)\s*$")
_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


class Found:
    """Finds the events of one attempt. What every rank prints alike is reported once; another value, too."""

    def __init__(self) -> None:
        self._stated: set[tuple[str, str]] = set()
        self._dtype = ""

    def find(self, text: str, rank: int | None) -> list[Event]:
        """Return the event of a line, if any."""
        if not any(sign in text for sign in SIGNS):
            return []
        if "Config param " in text:
            return self._param(text, rank)
        for kind, fatal, pattern, facts in _RULES:
            if match := pattern.search(text):
                return [Event(kind=kind, text=match[0].strip()[:500], rank=rank, fatal=fatal, facts=facts(match))]
        return []

    def _param(self, text: str, rank: int | None) -> list[Event]:
        match = _PARAM.search(text)
        if match is None or (match["name"], match["value"]) in self._stated:
            return []
        self._stated.add((match["name"], match["value"]))
        facts = self._value(match["name"], match["value"])
        return [Event(kind="fact", text=match[0].strip()[:500], rank=rank, facts=facts)] if facts else []

    def _value(self, name: str, value: str) -> Facts:
        """Return the fact of a configuration value. `quantization`, printed after `dtype`, decides the data type."""
        if name == "dtype":
            self._dtype = _DTYPES.get(value, value)
            return {}
        if name == "quantization":
            kind = value.rpartition(".")[2].lower()  # MaxText 0.2.5 prints `QuantizationType.FP8`
            dtype = "fp8" if "fp8" in kind else self._dtype if kind in ("", "none") else kind
            return {"dtype": dtype} if dtype else {}
        return {_NUMBERS[name]: read_whole(value)} if value.isdecimal() else {}
