"""From a specification to what has to be started: the environment or image it needs, its files and its one phase."""

from __future__ import annotations

from llmbx.catalog.environments import needed
from llmbx.launchers.payload import CODE, SPEC, carried
from llmbx.model import Image, ImageRequest, Launch, Mount, Phase, RunSpec

from .published import overlay

SAVED = {
    "megatron-bridge": "checkpoints/latest_checkpointed_iteration.txt",
    "nemo2": "nemo_experiments/default/checkpoints/*/weights/*.distcp",
}
"""What a run that saves a checkpoint must leave, by driver: the file that names the step, or the weights."""

CPU_ENV = {"CUDA_VISIBLE_DEVICES": "", "OMP_WAIT_POLICY": "passive", "TORCHDYNAMO_DISABLE": "1"}
"""A CPU run uses no GPU that is there by chance. Threads that wait must not spin: where something else wants the cores,
too, spinning made steps of the mini 50 times as long. torch.compile is disabled: Megatron decorates at import, and it
would need a compiler at run time."""

SOCKETS = 2
"""NUMA nodes of the machines that the recipes were made for: `cpunodebind` of the local rank divided by 4 on nodes of 8
GPUs, by 2 on those of 4 (Megatron-Bridge f23d790 and NeMo 6f2c6fd, scripts/performance)."""

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""Switches that keep the model hub's libraries from the network."""


def request(spec: RunSpec) -> ImageRequest:
    """The run's environment (where there is no GPU) or container image, and the gated tokenizer if one is asked for."""
    gated = spec.gated_tokenizer if spec.settings.get("tokenizer") == "hub" else None
    found: ImageRequest = needed(spec, __package__).replace(repositories=(gated,) if gated else ())
    return found


def launch(spec: RunSpec, image: Image) -> Launch:
    """The launch of a run in `image`: one rank for each GPU (or CPU process), all of them in one phase."""
    published = overlay(spec)
    phase = Phase(
        role="train",
        argv=(image.python, f"{CODE}/train.py"),
        env=environment(spec),
        forward=spec.secrets,
        needs=(spec.checkpoint.load,) if spec.checkpoint.load else (),
        makes=(SAVED[spec.driver],) if spec.checkpoint.save else (),
    )
    return Launch(
        nodes=spec.nodes,
        ranks_per_node=spec.gpus // spec.nodes,
        gpus_per_rank=0 if spec.gpu_type == "cpu" else 1,
        phases=(phase,),
        files=carried(spec, __package__, more={"published": published} if published else None),
        mounts=(Mount(source=spec.checkpoint.load, read_only=True),) if spec.checkpoint.load else (),
        ranks_per_numa_node=ranks_per_socket(spec),
    )


def ranks_per_socket(spec: RunSpec) -> int | None:
    """How many ranks share a socket where ranks are bound to one: upstream divides a node's GPUs among two sockets."""
    if spec.gpu_type == "cpu" or not spec.settings.get("numa_binding"):
        return None
    return max(1, spec.gpus_per_node // SOCKETS)


def environment(spec: RunSpec) -> dict[str, str]:
    """What every rank's environment has by value: llmbx's own choices before the recipe's, the user's before both."""
    own = {"LLMBX_SPEC": SPEC, "PYTHONUNBUFFERED": "1", **network(spec)}
    if spec.gpu_type == "cpu":
        own |= CPU_ENV
    from_recipe = f"recipe {spec.recipe}"
    asked = {name: text for name, text in spec.env.items() if spec.origins.get(f"env.{name}") != from_recipe}
    return {**spec.env, **own, **asked}


def network(spec: RunSpec) -> dict[str, str]:
    """Off the model hub, unless its tokenizer was asked for. Ranks of one machine without a GPU talk on loopback."""
    hub = spec.settings.get("tokenizer") == "hub"
    variables = dict.fromkeys(OFFLINE, "0" if hub else "1")
    if spec.gpu_type == "cpu" and spec.nodes == 1:
        variables["GLOO_SOCKET_IFNAME"] = "lo"
    return variables
