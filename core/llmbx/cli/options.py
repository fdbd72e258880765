"""The options that say which run is meant, shared by every verb that takes a workload."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..config import Config, load_config
from ..errors import UsageError
from ..install import Install, find_install
from ..model import RunSpec
from ..plugins import Plugins, load
from ..request import STAGE_PATH_NOTE, Request, parse_pairs

F = TypeVar("F", bound=Callable[..., Any])

_STEPS = click.option("--steps", "--max-steps", "steps", type=click.IntRange(min=1), help="Training steps in all.")
_MAX_STEPS = click.option("--max-steps", "steps", type=click.IntRange(min=1), help="Training steps in all.")

RUN_OPTIONS = (
    click.argument("names", nargs=-1, metavar="[PLUGIN] WORKLOAD"),
    click.option("-w", "--workload", help="The workload, as an option."),
    click.option("--plugin", help="The plugin, where several have the workload."),
    click.option("-s", "--size", help="Model size: 8b, 70b, 405b, 314b, mini …"),
    click.option("--dtype", help="bf16, fp8 … (fp32 for minis)."),
    click.option("--gpu-type", help="a100, h100, h200, b200, b300, gb200, gb300, cpu."),
    click.option("--gpus", "--scale", "gpus", type=click.IntRange(min=1), help="Number of GPUs (ranks on CPU)."),
    click.option("--gpus-per-node", type=click.IntRange(min=1), help="GPUs in one node, where the default is wrong."),
    click.option("--recipe", help="The recipe, where the newest is not meant."),
    _STEPS,
    click.option("--window", help="Steps to measure: A-B (inclusive, the log's numbers), last, or auto."),
    click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change one setting: tp=2, gbs=64 …"),
    click.option("--env", "env", multiple=True, metavar="NAME=VALUE", help="Export a variable to every rank."),
    click.option("--image", help="Another container image (reference or file)."),
    click.option("--accept-image-change", is_flag=True, help="Use an image although it is not the one first seen."),
    click.option("--runtime", help="venv, docker, apptainer, enroot, pyxis, host; default: what fits here."),
    click.option("--launcher", help="local or slurm; default: the cluster profile's, else what the run needs."),
    click.option("--cluster", help="The cluster profile of llmbx.toml to use."),
    click.option("--slurm-arg", "scheduler", multiple=True, metavar="KEY=VALUE", help="One more sbatch option."),
    click.option("--mount", "mounts", multiple=True, metavar="SRC[:DST][:ro]", help="Mount into the container."),
    click.option("--walltime", "walltime_minutes", type=click.IntRange(min=1), metavar="MINUTES", help="Time limit."),
    click.option("--stall-timeout", "stall_timeout_s", type=float, metavar="SECONDS",
                 help="Dump stacks and stop when the log is silent for so long."),
    click.option("--tag", "tags", multiple=True, help="A word to find the run by later."),
    click.option("--with", "wrappers", multiple=True, metavar="PROFILER", help="Wrap it in a profiler: nccltrace …"),
    click.option("--trace-subsystems", metavar="NAMES", help="What a traced run logs; default: INIT,COLL,NET."),
    click.option("--trace-file-per-rank", is_flag=True, default=None, help="A traced run logs to one file a process."),
    click.option("--force", is_flag=True, help="Run although rules are broken; the record says so."),
)  # fmt: skip


def run_options(function: F, own_steps: bool = False) -> F:
    """Add every option that says which run is meant; they arrive as one `Request` named `request`.

    It is None where no workload is named. `own_steps` leaves the name `--steps` to the verb; `--max-steps` stays.
    """

    @click.pass_context
    def wrapped(ctx: click.Context, /, **arguments: Any) -> Any:
        rest = {key: arguments.pop(key) for key in list(arguments) if key not in _NAMES}
        request = build_request(arguments) if arguments.get("names") or arguments.get("workload") else None
        return ctx.invoke(function, request=request, **rest)

    wrapped.__doc__ = function.__doc__
    for option in reversed(RUN_OPTIONS):
        wrapped = (_MAX_STEPS if own_steps and option is _STEPS else option)(wrapped)
    return wrapped  # type: ignore[return-value]


_NAMES = {"names", "workload", "plugin", "size", "dtype", "gpu_type", "gpus", "gpus_per_node", "recipe", "steps",
          "window", "settings", "env", "image",
          "accept_image_change", "runtime", "launcher", "cluster", "scheduler", "mounts",
          "walltime_minutes", "stall_timeout_s", "tags", "wrappers", "trace_subsystems",
          "trace_file_per_rank", "force"}  # fmt: skip


def build_request(arguments: dict[str, Any]) -> Request:
    """The options as a `Request`. Raises `UsageError` for contradictions and malformed pairs."""
    names = list(arguments.pop("names", ()))
    workload = arguments.pop("workload", None)
    if len(names) == 2 and arguments.get("plugin") in (None, names[0]):
        arguments["plugin"] = names.pop(0)
    if len(names) + bool(workload) != 1:
        raise UsageError(f"expected one workload, got {', '.join([*names, *([workload] if workload else [])])}")
    for key, option in (("settings", "--set"), ("env", "--env")):
        arguments[key] = parse_pairs(option, arguments.get(key, ()))
    arguments["scheduler"] = _scheduler(arguments.get("scheduler", ()))
    if arguments.get("tags"):
        from ..history.tags import check_tags

        arguments["tags"] = check_tags(arguments["tags"])
    for key in ("size", "dtype", "gpu_type"):
        arguments[key] = arguments[key].lower() if arguments.get(key) else None
    return Request(workload=workload or names[0], **arguments)


def _scheduler(pairs: tuple[str, ...]) -> dict[str, str]:
    return parse_pairs("--slurm-arg", tuple(pair if "=" in pair else pair + "=" for pair in pairs))


@dataclasses.dataclass(frozen=True)
class World:
    """What a verb works with: the plugins, the configuration and the install."""

    plugins: Plugins
    config: Config
    cluster_files: dict[str, str]
    install: Install

    def resolve(self, request: Request) -> RunSpec:
        """The specification that the request means here."""
        from ..resolve import resolve

        return resolve(request, self.plugins, self.config, self.cluster_files, os.environ, self.install.root)


def place() -> tuple[Install, Callable[[], Plugins]]:
    """The install, and the plugins for when they are needed: a verb that reads files alone starts faster."""
    config, _ = load_config()
    return find_install(os.environ, config.install), load


def world() -> World:
    """Load plugins and configuration, and say once that `STAGE_PATH` has been replaced where it is still set."""
    if os.environ.get("STAGE_PATH"):
        click.echo(f"llmbx: note: {STAGE_PATH_NOTE}", err=True)
    config, cluster_files = load_config()
    return World(load(), config, cluster_files, find_install(os.environ, config.install))
