"""Turn a run specification into an image request and a launch: files, mounts and one training phase."""

from __future__ import annotations

from llmbx.api import Image, ImageRequest, Launch, Mount, Phase, RunSpec, needed, payload_files

from .published import hub_files, more_of_spec
from .settings import settings

SAVED = {
    "megatron-bridge": "checkpoints/latest_checkpointed_iteration.txt",
    "nemo2": "nemo_experiments/default/checkpoints/*/weights/*.distcp",
}
"""Output that a run which saves a checkpoint must produce, by driver: the file with the step number, or the weights."""

CPU_ENV = {"CUDA_VISIBLE_DEVICES": "", "OMP_WAIT_POLICY": "passive", "TORCHDYNAMO_DISABLE": "1"}
"""Environment of a CPU run. GPUs that the machine may have are hidden. Waiting threads must not spin: if other
processes use the cores too, spinning made the steps of the mini 50 times as long. torch.compile is disabled, because
Megatron applies its decorators at import, and they would need a compiler at run time."""

SOCKETS = 2
"""NUMA nodes per machine that the recipes assume: they pass `cpunodebind` the local rank divided by 4 on nodes with 8
GPUs, and by 2 on nodes with 4 (Megatron-Bridge f23d790 and NeMo 6f2c6fd, scripts/performance)."""

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""Variables that put the Hugging Face libraries into offline mode."""


def request(spec: RunSpec) -> ImageRequest:
    """Return the environment (without a GPU) or the image of the run, with its gated tokenizer if `tokenizer=hub`."""
    gated = spec.gated_tokenizer if settings(spec).tokenizer == "hub" else None
    image_request: ImageRequest = needed(spec, __package__).replace(repositories=(gated,) if gated else ())
    return image_request


def launch(spec: RunSpec, image: Image) -> Launch:
    """Return the launch of a run in `image`: one phase with one rank for each GPU (or CPU process)."""
    phase = Phase(
        role="train",
        argv=(image.python, "code/train.py"),
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
        files={
            **payload_files(spec, __package__, more=more_of_spec(spec)),
            **hub_files(spec),
        },
        mounts=(Mount(source=spec.checkpoint.load, read_only=True),) if spec.checkpoint.load else (),
        ranks_per_numa_node=ranks_per_socket(spec),
    )


def ranks_per_socket(spec: RunSpec) -> int | None:
    """Return the number of ranks per socket, or None if ranks are not bound.

    Upstream divides the GPUs of a node between two sockets.
    """
    if spec.gpu_type == "cpu" or not settings(spec).numa_binding:
        return None
    return max(1, spec.gpus_per_node // SOCKETS)


def environment(spec: RunSpec) -> dict[str, str]:
    """Return the environment variables of every rank.

    llmbx's own values override those of the recipe, and the user's values override both.
    """
    own = {"LLMBX_SPEC": "spec.json", "PYTHONUNBUFFERED": "1", **network(spec), **expert_domain(spec)}
    if spec.gpu_type == "cpu":
        own |= CPU_ENV
    from_recipe = f"recipe {spec.recipe}"
    from_user = {name: text for name, text in spec.env.items() if spec.origins.get(f"env.{name}") != from_recipe}
    return {**spec.env, **own, **from_user}


def expert_domain(spec: RunSpec) -> dict[str, str]:
    """Return the number of ranks that exchange tokens over NVLink, for an expert parallelism that the user changed.

    As upstream's program computes it for its own option; the recipe's value is for the recipe's EP.
    """
    ranks, domain = "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN", spec.env.get("NVLINK_DOMAIN_SIZE")
    if ranks not in spec.env or domain is None or not spec.origins.get("ep", "").startswith("--"):
        return {}
    return {ranks: str(min(spec.parallelism.ep or 1, int(domain)))}


def network(spec: RunSpec) -> dict[str, str]:
    """Return the variables that control network access.

    The Hugging Face libraries are offline unless the run uses the hub's tokenizer. The ranks of a CPU run on one
    machine communicate over the loopback interface.
    """
    hub = settings(spec).tokenizer == "hub"
    variables = dict.fromkeys(OFFLINE, "0" if hub else "1")
    if spec.gpu_type == "cpu" and spec.nodes == 1:
        variables["GLOO_SOCKET_IFNAME"] = "lo"
    return variables
