"""What Megatron-Bridge's `Configuration Summary` states: batch, steps, layers, widths and data type.

The summary lists, by section, values that differ from Megatron's defaults (`  num_layers: 4  (Mcore default: 0)`) and
others (`  train_iters: 50`). Rank 0 prints it once.
"""

from __future__ import annotations

import re

from llmbx.api import Event, read_whole

LONGEST = 400
"""Number of lines after which a summary without an end is left."""

KEYS = {
    ("model", "num_layers"): "layers",
    ("model", "hidden_size"): "hidden_size",
    ("model", "seq_length"): "sequence_length",
    ("train", "global_batch_size"): "global_batch_size",
    ("train", "micro_batch_size"): "micro_batch_size",
}
"""Section and key of the numbers that are facts, and the names of these."""

# A label may precede the text; `bf16: True` looks like one itself, so that no label is split off here.
_SECTION = re.compile(r"\[(?P<name>\w+)\](?: Non-default values|:\s*$)")
_VALUE = re.compile(r"(?:^|\s)(?P<key>\w+): (?P<value>\S+)")
_END = re.compile(r"(?<!=)={20,}\s*$")


class Summary:
    """Reads one summary, line by line; `open` is whether it has begun and not ended."""

    def __init__(self) -> None:
        self.open = False
        self._section = ""
        self._lines = 0
        self._types: set[str] = set()

    def feed(self, text: str) -> list[Event]:
        """Return the facts of a line. A line of `=` after the first section ends the summary."""
        if "Configuration Summary (" in text:
            self.open, self._section, self._lines, self._types = True, "", 0, set()
            return []
        self._lines += 1
        if (_END.search(text) and self._section) or self._lines > LONGEST:
            self.open = False
            return self._dtype()
        if section := _SECTION.search(text):
            self._section = section["name"]
            return []
        match = _VALUE.search(text)
        return self._value(match["key"], match["value"], text) if match else []

    def _value(self, key: str, value: str, text: str) -> list[Event]:
        if self._section == "model" and key in ("bf16", "fp16", "fp8", "fp4", "autocast_dtype"):
            self._types |= {"fp32" if value == "torch.float32" else key} - {"autocast_dtype"}
        name = KEYS.get((self._section, key))
        return [_fact(text, name, read_whole(value))] if name and value.isdecimal() else []

    def _dtype(self) -> list[Event]:
        """The narrowest data type that is named; a model in FP8 names bf16, too."""
        names = {"fp4": "nvfp4", "fp8": "fp8", "bf16": "bf16", "fp16": "fp16", "fp32": "fp32"}
        dtype = next((names[kind] for kind in names if kind in self._types), None)
        return [_fact(f"data type {dtype}", "dtype", dtype)] if dtype else []


def _fact(text: str, name: str, value: str | int) -> Event:
    return Event(kind="fact", text=text.strip()[:500], facts={name: value})
