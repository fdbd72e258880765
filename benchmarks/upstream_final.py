"""Execute upstream's program for rows of the catalog, as far as its final configuration: `upstream/*.json`.

    PYTHON benchmarks/upstream_final.py SCRIPTS HUB ROWS OUT

PYTHON has Megatron-Bridge 0.6 (the environment megatron-bridge-0.6-cpu); SCRIPTS is scripts/performance of its tag
v0.6.0, or of a checkout of 0.5 whose `src` is in PYTHONPATH; HUB a folder with the models' config.json
(`make upstream-rows` writes it). ROWS is a JSON list of objects with the row's `name`, and `model`, `family`, `gpu`,
`gpus`, `dtype`, `gpus_per_node`, and `arguments` and `environment` for the program. OUT gets a JSON object with all
values of each row. Neither CUDA nor Transformer Engine is needed: llmbx's stand-ins replace them.
"""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ARGUMENTS = ["--account", "a", "--partition", "p", "--offline"]


def executor_values(row: dict[str, Any], configuration: Any) -> dict[str, Any]:
    """Return the launch that upstream's executor describes."""
    from utils import executors

    environment = {**row.get("environment", {}), **getattr(configuration, "env_vars", {})}

    per_node = row["gpus_per_node"]
    made = executors.slurm_executor(
        gpu=row["gpu"], account="a", partition="p", log_dir="/log", nodes=max(1, row["gpus"] // per_node),
        num_gpus_per_node=per_node, offline=False,
        enable_pct_binding=binds_cores(row),
        custom_env_vars={name: str(value) for name, value in environment.items()},
    )  # fmt: skip
    plugin_arguments(row, made)
    return {
        **{f"launch.env.{name}": value for name, value in made.env_vars.items()},
        "launch.nodes": made.nodes,
        "launch.ntasks_per_node": made.ntasks_per_node,
        "launch.pre_cmds": made.launcher.template_vars["pre_cmds"],
        "launch.segment": made.segment,
        "launch.srun_args": made.srun_args,
    }


def plugin_arguments(row: dict[str, Any], executor: Any) -> list[str]:
    """Set the variables that a plugin of the launch sets, and return its arguments for the program: up to 0.5."""
    if "--config_variant" not in row.get("arguments", ()):
        return []
    from nemo_run import Script
    from perf_plugins import PerfEnvPlugin

    task = Script(args=[])
    PerfEnvPlugin(
        model_family_name=row["family"], model_recipe_name=row["model"], gpu=row["gpu"], train_task="pretrain",
        compute_dtype=row["dtype"], config_variant=row["arguments"][row["arguments"].index("--config_variant") + 1],
    ).setup(task, executor)  # fmt: skip
    return list(task.args)


def binds_cores(row: dict[str, Any]) -> bool:
    """Whether upstream's setup_experiment.py leaves the binding to cores on, which is for B300 only."""
    super_bf16 = (row["model"], row["dtype"]) == ("nemotron_3_super", "bf16")
    return row["family"] not in ("llama", "kimi", "deepseek") and not super_bf16


def values(row: dict[str, Any]) -> dict[str, Any]:
    """Return all values of a row: of the final configuration, and of the launch."""
    import run_script
    from megatron.bridge.training import pretrain

    from llmbx.entry import final
    from llmbx_nemo.entry import fake_te

    os.environ.update(WORLD_SIZE=str(row["gpus"]), RANK="0")
    fake_te.set_gpu_type(row["gpu"])
    flat: dict[str, Any] = {}

    def caught(*args: Any, **given: Any) -> None:
        configuration = (given.get("state") or args[0]).cfg
        flat.update(final.flat(configuration))
        flat.update(executor_values(row, configuration))

    pretrain._pretrain = caught
    sys.argv = [
        "run_script.py", "--model_family_name", row["family"], "--model_recipe_name", row["model"], "--gpu", row["gpu"],
        "--num_gpus", str(row["gpus"]), "--gpus_per_node", str(row["gpus_per_node"]),
        "--compute_dtype", row["dtype"], *row.get("arguments", ()), *ARGUMENTS,
        *plugin_arguments(row, Record(env_vars={})),
    ]  # fmt: skip
    run_script.main()
    return {name: _portable(value) for name, value in flat.items()}


def _portable(value: Any) -> Any:
    return value.replace(str(Path.cwd()), "$CWD") if isinstance(value, str) else value


class Record(types.SimpleNamespace):
    """A stand-in for a class of NeMo-Run: it keeps what it is made with."""

    def __init__(self, *_: Any, **given: Any) -> None:
        super().__init__(**given)


def stand_in_for_nemo_run() -> None:
    """Replace NeMo-Run, of which upstream's executor and plugins only use records."""
    names = {
        "nemo_run": (
            "Plugin", "SlurmExecutor", "LocalTunnel", "Packager", "GitArchivePackager", "Script", "KubeflowExecutor",
        ),
        "nemo_run.config": (),
        "nemo_run.core": (),
        "nemo_run.core.execution": (),
        "nemo_run.core.execution.launcher": ("SlurmTemplate",),
    }  # fmt: skip
    for name, members in names.items():
        module: Any = types.ModuleType(name)
        vars(module).update({member: type(member, (Record,), {}) for member in members})
        sys.modules[name] = module
    config: Any = sys.modules["nemo_run.config"]
    config.get_nemorun_home = lambda: "/log"
    config.set_nemorun_home = lambda _: None


def in_subprocess(row: dict[str, Any], out: Path) -> int:
    """Write a row's values in a child process: upstream's program changes objects of its modules."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            out.write_text(json.dumps(values(row), default=str, sort_keys=True))
            code = 0
        except BaseException as error:
            print(f"{row['name']}: {type(error).__name__}: {error}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    scripts, hub, rows, out = map(Path, sys.argv[1:])
    os.environ.update(
        CUDA_VISIBLE_DEVICES="", TORCHDYNAMO_DISABLE="1", HF_HUB_OFFLINE="1", HF_HUB_CACHE=str(hub.resolve()),
        WORLD_SIZE="1",
    )  # fmt: skip
    sys.path[:0] = [str(scripts), str(ROOT / "core"), str(ROOT / "plugins" / "nemo")]
    stand_in_for_nemo_run()
    from llmbx_nemo.entry import bridge, fake_te, stubs

    bridge.prepare()
    fake_te.install("megatron-bridge")
    with stubs.absent_packages():
        import run_script  # noqa: F401
        from megatron.bridge.diffusion.models.wan.wan_step import WanForwardStep  # noqa: F401
        from megatron.bridge.models.qwen_vl.qwen3_vl_step import forward_step  # noqa: F401
        from megatron.bridge.training import vlm_step  # noqa: F401
        from utils import overrides  # noqa: F401
    result, part = {}, out.with_suffix(".part")
    for row in json.loads(rows.read_text()):
        if in_subprocess(row, part) == 0:
            result[row["name"]] = json.loads(part.read_text())
    part.unlink(missing_ok=True)
    out.write_text(json.dumps(result, sort_keys=True))
    print(len(result), "rows")


if __name__ == "__main__":
    main()
