"""Facts about the machine: BF16 support of the CPU, and whether the owner of a run is alive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.model import RunSpec
from llmbx.record.host import alive, has_bf16, is_me, myself
from llmbx.resolve.rules import emulated_bf16

# "flags" of an AMD EPYC 7R13 (AVX2), an EPYC 9R14 (AVX-512 with BF16), "Features" of a Neoverse V1.
AVX2 = "processor\t: 0\nflags\t\t: fpu sse4_2 avx f16c rdrand avx2 bmi2 vaes\n"
AVX512 = "processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_vnni avx512_bf16\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd sve i8mm bf16 dgh rng\n"


@pytest.mark.parametrize(
    ("cpuinfo", "environ", "expected"),
    [
        (AVX2, {}, False),
        (AVX512, {}, True),
        (ARM, {}, True),
        (AVX512, {"ONEDNN_MAX_CPU_ISA": "avx2"}, False),
        (AVX512, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}, True),
        ("processor\t: 0\nmodel name\t: unknown\n", {}, None),
        (None, {}, None),
    ],
)
def test_bf16_instructions(cpuinfo: str | None, environ: dict[str, str], expected: bool | None, tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    if cpuinfo is not None:
        path.write_text(cpuinfo)
    assert has_bf16(environ, path) is expected


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({"dtype": "bf16"}, True),
        ({"dtype": "fp32"}, False),
        ({"dtype": "bf16", "gpu_type": "h100"}, False),
        ({"dtype": "bf16", "launcher": "slurm"}, False),  # the nodes' CPUs are not this machine's
    ],
)
def test_a_run_in_emulated_bf16_is_warned_of_its_price(
    changes: dict[str, str], warned: bool, make_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    found = emulated_bf16(make_spec(**{"launcher": "local", "gpu_type": "cpu", **changes}), "2 to 5")
    assert [(f.warning, "2 to 5 times as long as with fp32" in f.problem) for f in found] == [(True, True)] * warned


def test_the_owner_of_a_run_is_alive_whatever_the_clock_was_set_to() -> None:
    me = myself()
    assert me.ticks is not None
    assert is_me(me) and is_me(me.replace(started=me.started - 600)), (
        "its start in epoch seconds changes with the clock"
    )
    assert alive(me.replace(ticks=me.ticks + 1)) is False, "another process with the same id"
    assert alive(me.replace(boot_id="another")) is False, "the machine was restarted"
    assert alive(me.replace(host="elsewhere")) is None
    assert alive(me.replace(ticks=None, boot_id="")) is True, "without /proc"
