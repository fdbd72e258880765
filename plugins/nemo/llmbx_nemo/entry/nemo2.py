"""The NeMo 2 driver, for the recipes whose image is one of the nemo:25.0x containers.

It takes the installed NeMo's own recipe with the release's values (`nemo2_recipe`), builds it as NeMo-Run would in the
job, and calls its `pretrain`.
"""

from __future__ import annotations

import gc
import os
import types
import warnings
from pathlib import Path
from typing import Any

from llmbx.entry import final, rank, seen
from llmbx_nemo.entry import execution, nemo2_cpu, nemo2_final, nemo2_recipe, patches, step_profile, stubs, verified
from llmbx_nemo.entry.config import ConfigError
from llmbx_nemo.entry.execution import Host, Spec
from llmbx_nemo.entry.step_profile import StepProfile


def run(spec: Spec, run_dir: Path) -> list[str]:
    """Train. Returns the problems that prevent it, one line each; an empty list after a completed run."""
    # Lightning reads the rank variables only under torchrun, which it detects by this variable
    os.environ.setdefault("TORCHELASTIC_RUN_ID", "llmbx")
    host = prepare()
    problems = execution.problems(spec, host)
    if problems:
        return problems
    try:
        recipe = nemo2_recipe.recipe(spec, host)
    except ConfigError as error:
        return [str(error)]
    os.chdir(run_dir)
    pretrain(recipe, step_profile.of_rank(spec, host), verified.of_run(spec, host, Path()))
    return []


def prepare() -> Host:
    """Import NeMo; without CUDA, with the CPU shims and with stubs for packages that are not installed.

    With CUDA nothing is replaced: the NeMo of an image detects by itself which optional packages are installed.
    """
    warnings.filterwarnings("ignore")
    gc.disable()
    import torch

    cuda = torch.cuda.is_available()
    if cuda:
        from nemo.collections import llm
    else:
        from llmbx_nemo.entry import cpu_shims

        os.environ.setdefault("PL_TORCH_DISTRIBUTED_BACKEND", "gloo")
        cpu_shims.install()
        with stubs.absent_packages(stubs.NEMO2, stubs.NEMO2_FIRST):
            from nemo.collections import llm  # noqa: F401
        patches.install()
        nemo2_cpu.patch()
    gc.enable()
    te = cuda and rank.importable("transformer_engine")
    return Host(cuda=cuda, te=te, world=int(os.environ["WORLD_SIZE"]))


def pretrain(recipe: Any, profile: StepProfile | None = None, passes: Any = None) -> None:
    """Build the recipe and train, with some steps profiled, and the passes of the last step repeated.

    Rank 0 writes the final configuration once connected.
    """
    import fiddle

    task = fiddle.build(recipe)
    arguments = dict(task.keywords)
    if os.environ["RANK"] == "0":
        trainer = arguments["trainer"]
        before = nemo2_final.built(recipe, parts(arguments["model"], trainer, arguments["optim"], arguments["data"]))
        trainer.callbacks.append(recorder(before))
    if profile:
        add_profile(arguments["trainer"].callbacks, profile)
    last = arguments["trainer"].max_steps - 1 if passes else None
    if passes:
        verified.see_nemo2(passes)
    add_clock(arguments["trainer"].callbacks, last)
    task()


def add_clock(callbacks: list[Any], repeated: int | None = None) -> None:
    """Let Lightning notify a clock of the rank's steps, but of the one whose passes are repeated."""
    from lightning.pytorch.callbacks import Callback
    from nemo.lightning.pytorch.callbacks.nsys import get_current_epoch_step

    clock = patches.clock(Path())
    if clock is None:
        return

    class Clocked(Callback):
        def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
            if (step := get_current_epoch_step(trainer)) != repeated:
                clock.begin(step)

        def on_train_batch_end(self, *_: Any) -> None:
            clock.end()

        def on_train_end(self, *_: Any) -> None:
            clock.close()

    callbacks.append(Clocked())


def add_profile(callbacks: list[Any], profile: StepProfile) -> None:
    """Let Lightning notify the profile of the rank's steps.

    Each range lies inside the capture that NeMo's callback starts and stops: the last callback begins it, and the first
    one ends it.
    """
    from lightning.pytorch.callbacks import Callback
    from nemo.lightning.pytorch.callbacks.nsys import get_current_epoch_step

    class Begin(Callback):
        def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
            profile.begin(get_current_epoch_step(trainer))

    class End(Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            profile.end(get_current_epoch_step(trainer) - 1)

    callbacks.insert(0, End())
    callbacks.append(Begin())


def parts(model: Any, trainer: Any, optim: Any, data: Any) -> Any:
    """Return the built objects under the names that `nemo2_final.built` uses."""
    return types.SimpleNamespace(
        model=model, strategy=trainer.strategy, precision=precision_of(trainer), optim=optim, data=data,
        callbacks=trainer.callbacks,
    )  # fmt: skip


def precision_of(trainer: Any) -> Any:
    """Return the precision plugin of a trainer."""
    return trainer._accelerator_connector.precision_plugin


def recorder(before: nemo2_final.Flat) -> Any:
    """Return a callback that writes `configs/final.json` when training starts; the strategy is connected by then."""
    from lightning.pytorch.callbacks import Callback

    class Recorder(Callback):
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            from nemo.utils import AppState

            size = AppState().data_parallel_size
            after = nemo2_final.connected(pl_module.config, pl_module.optim.config, trainer.strategy.ddp_config, size)
            final.write_flat({**before, **after}, seen.versions(execution.PACKAGES))

    return Recorder()


def configuration(spec: Spec, host: Host) -> nemo2_final.Flat:
    """Return the contents of `configs/final.json` without a trainer and without training, by connecting the model."""
    import fiddle

    recipe = nemo2_recipe.recipe(spec, host)
    trainer = recipe.trainer
    made = types.SimpleNamespace(
        model=fiddle.build(recipe.model),
        strategy=fiddle.build(trainer.strategy),
        precision=fiddle.build(trainer.plugins),
        optim=fiddle.build(recipe.optim),
        data=fiddle.build(recipe.data),
        callbacks=[fiddle.build(item) for item in trainer.callbacks],
    )
    before = nemo2_final.built(recipe, made)
    connect(made, spec)
    size = spec["parallelism"]["dp"]
    return {**before, **nemo2_final.connected(made.model.config, made.optim.config, made.strategy.ddp_config, size)}


def connect(made: Any, spec: Spec) -> None:
    """Connect optimizer, strategy and callbacks to the model, as Lightning does before it creates the layers."""
    from nemo.utils import AppState

    parallelism, state = spec["parallelism"], AppState()
    state.data_parallel_size = parallelism["dp"]
    state.tensor_model_parallel_size = parallelism["tp"]
    state.context_parallel_size = parallelism["cp"]
    made.optim.connect(made.model)
    made.strategy._precision_plugin = made.precision
    made.strategy.connect(made.model)
    trainer = types.SimpleNamespace(
        strategy=made.strategy, model=made.model, num_nodes=1, devices=spec["gpus"], world_size=spec["gpus"]
    )
    for item in made.callbacks:
        if type(item).__name__ in ("MegatronTokenDropCallback", "MegatronCommOverlapCallback"):
            item.setup(trainer, made.model, "fit")
