"""Log formats of the NeMo family, and torchtitan's, with which Primus trains, too: detection, parsers, default windows.

The windows are those of the recipes: 35-44 for Megatron-Bridge (Llama 3.1 recipe), 11-44 for NeMo 2 (Grok-1 and Llama 4
recipes), the last step for the Llama 3.1 recipe on NeMo 2.
"""

from __future__ import annotations

import re

from llmbx.api import LogFormat, RunSpec, UsageError, did_you_mean

from .megatron import MegatronParser
from .nemo1 import BAR, Nemo1Parser
from .nemo2 import Nemo2Parser
from .torchtitan import STEP, TorchtitanParser


def formats(spec: RunSpec | None = None) -> list[LogFormat]:
    """Return the formats, that of the run's driver first, the others newest first.

    Of several that match equally well, the first one is used. Raises `UsageError` for a driver without a log format.
    """
    formats = {
        format_.name: format_
        for format_ in (
            LogFormat("megatron-bridge", "Megatron-Bridge", _bridge, MegatronParser, _usual_window, unit="ms"),
            LogFormat("megatron-lm", "Megatron-LM", _megatron_lm, MegatronParser, _usual_window, unit="ms"),
            LogFormat("nemo2", "NeMo 2", _nemo2, Nemo2Parser, _nemo2_window),
            LogFormat("nemo1", "NeMo 1", _nemo1, Nemo1Parser),
            LogFormat("torchtitan", "torchtitan", _torchtitan, TorchtitanParser),
        )
    }
    driver = spec.driver if spec else "megatron-bridge"
    if driver not in formats:
        raise UsageError(f"no log parser for driver '{driver}'{did_you_mean(driver, formats)}")
    return [formats.pop(driver), *formats.values()]


def _usual_window(experiment: str) -> str:
    return "35-44"


def _bridge(text: str) -> int:
    own = len(re.findall(r"MODEL_TFLOP/s/GPU|megatron[./]bridge|Non-Default Values vs Megatron Core", text))
    return own + _megatron(text) if own else 0


def _megatron_lm(text: str) -> int:
    return _megatron(text)


def _megatron(text: str) -> int:
    return len(re.findall(r"elapsed time per iteration \(m?s\):|\[after megatron is initialized\]", text))


def _nemo2(text: str) -> int:
    return len(re.findall(r"Training epoch \d+, iteration \d+/\d+", text)) + ("[NeMo " in text)


def _nemo1(text: str) -> int:
    return sum("train_step_timing in s=" in bar["body"] for bar in BAR.finditer(text))


def _torchtitan(text: str) -> int:
    return sum(1 for _ in STEP.finditer(text))


def _nemo2_window(experiment: str) -> str:
    return "last" if re.search(r"llama_?3\.?1(?!\d)", experiment) else "11-44"
