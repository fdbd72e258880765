"""Plugins for the tests of the audit: the in-tree plugins, and a framework with the workloads of a test."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

import pluggy
import pytest

from llmbx import hookimpl, hookspecs
from llmbx.model import Finding, ModelShape, RunSpec, Workload
from llmbx.model.flops import Flops
from llmbx.plugins.manager import Plugins

SHAPE = ModelShape(
    layers=16,
    hidden_size=1024,
    ffn_hidden_size=4096,
    heads=16,
    query_groups=4,
    vocab_size=50000,
    sequence_length=2048,
)


def flops(model: ModelShape) -> Flops:
    """The FLOPs formula of the recipes for dense and MoE models."""
    m = model
    per_token = 18 * m.layers * m.ffn_hidden_size * m.hidden_size * (m.experts_per_token or 1)
    per_token += 6 * m.vocab_size * m.hidden_size

    def whole(seen: float) -> float:
        share = 1 + m.query_groups / m.heads + seen / m.hidden_size
        return m.sequence_length * (12 * m.layers * m.hidden_size**2 * share + per_token)

    return Flops(full=whole(m.sequence_length), causal=whole(m.sequence_length / 2), formula="recipe")


def manager(**modules: object) -> Plugins:
    registry = pluggy.PluginManager("llmbx")
    registry.add_hookspecs(hookspecs)
    for name, module in modules.items():
        registry.register(module, name=name)
    return Plugins(registry, [])


@pytest.fixture
def shipped() -> Plugins:
    """The framework plugins of this distribution, whether or not their entry points are installed."""
    return manager(
        nemo=importlib.import_module("llmbx_nemo.plugin"), maxtext=importlib.import_module("llmbx_maxtext.plugin")
    )


@pytest.fixture
def framework() -> Callable[..., Plugins]:
    """`framework(workloads, findings)`: a framework with these workloads, whose rules return `findings`."""

    def make(workloads: Sequence[Workload], findings: Callable[[RunSpec], list[Finding]] | None = None) -> Plugins:
        class Toy:
            @hookimpl
            def register_workloads(self) -> list[Workload]:
                return list(workloads)

            @hookimpl
            def check_spec(self, spec: RunSpec) -> list[Finding]:
                return findings(spec) if findings else []

            @hookimpl
            def compute_flops(self, spec: RunSpec) -> Flops:
                return flops(spec.model)

        return manager(toy=Toy())

    return make
