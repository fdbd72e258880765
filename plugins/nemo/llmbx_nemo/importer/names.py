"""The names of upstream's models here, and what its launch sets outside of a Megatron-Bridge tree (`models.toml`)."""

from __future__ import annotations

import functools
from importlib import resources

from llmbx.api import UsageError, Value, read_toml


class Large(Value, frozen=True):
    """Variables that the launch exports from a number of GPUs on."""

    workload: str
    min_gpus: int
    env: dict[str, str]
    sizes: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    gpu_types: tuple[str, ...] = ()


class Scale(Value, frozen=True):
    """Rows for numbers of GPUs to which the launch scales another row, with the values that it changes."""

    workload: str
    size: str
    dtypes: tuple[str, ...]
    gpu_type: str
    scaled_from: int
    gpus: tuple[int, ...]
    values: dict[str, int | bool]
    settings: dict[str, str] = {}


class Names(Value, frozen=True):
    """The contents of `models.toml`."""

    models: dict[str, tuple[str, str]]
    left_out: dict[str, str]
    titles: dict[str, str]
    walltime_minutes: dict[str, dict[str, int]]
    env: dict[str, str]
    gpu_env: dict[str, dict[str, str]]
    images: dict[str, dict[str, str]]
    large: tuple[Large, ...] = ()
    scales: tuple[Scale, ...] = ()


@functools.cache
def shipped_names() -> Names:
    """Return the names that llmbx ships."""
    return read_toml(resources.files(__package__) / "models.toml", Names)


def with_models(names: Names, pairs: tuple[str, ...]) -> Names:
    """Return the names with more models, each as MODEL=WORKLOAD/SIZE. Raises `UsageError` for another form."""
    models = dict(names.models)
    for pair in pairs:
        model, _, target = pair.partition("=")
        workload, _, size = target.partition("/")
        if not (model and workload and size):
            raise UsageError(f"--model {pair}: expected MODEL=WORKLOAD/SIZE, as in my_llm_7b=my-llm/7b")
        models[model] = (workload, size)
    return names.replace(models=models)
