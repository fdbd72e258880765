"""Wrong command lines of users who come from other tools: the one line says what to type instead."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest

from llmbx.cli import main
from llmbx.model.job import JobState
from llmbx.model.result import Status
from llmbx.phrases import near, synonyms_of_tools
from llmbx.plugins.manager import load

ON_H100 = "--size 8b --gpu-type h100"

INSTEAD = {
    # options of run
    "run llama3.1 --precision bf16": "no option '--precision': use --dtype;",
    "run llama3.1 --gpu h100": "no option '--gpu': use --gpu-type NAME, or --gpus N for a number;",
    "run llama3.1 --num_gpus 8": "no option '--num-gpus': use --gpus;",
    "run llama3.1 --nodes 2": "use --gpus N, the number of GPUs of all nodes;",
    "run llama3.1 -N 2": "use --gpus N, the number of GPUs of all nodes;",
    "run llama3.1 --nproc-per-node 8": "use --gpus-per-node;",
    "run --model llama3.1": "no option '--model': use --workload;",
    "run llama3.1 --model-size 8b": "use --size;",
    "run llama3.1 --framework nemo": "use --plugin;",
    "run llama3.1 --output_dir /x": "use --output;",
    "run llama3.1 --train-iters 5": "use --max-steps;",
    "run llama3.1 --time 1:00:00": "use --walltime;",
    "run llama3.1 --container-mounts /a:/b": "use --mount;",
    "run llama3.1 --fp8": "use --dtype fp8;",
    "run llama3.1 --json": "use --format json;",
    "run llama3.1 --ckpt /x": "use ENABLE_CHECKPOINT=1 llmbx run;",
    "run llama3.1 -v --dry-run": "no option '-v': use --verbose;",
    "run llama3.1 --stesp 5": "no option '--stesp' (did you mean '--steps'?);",
    "run llama3.1 --data-path /x": "no option '--data-path'; see `llmbx run --help`",
    # settings, by their names here and elsewhere
    "run llama3.1 --batch-size 512": "use --set gbs=N (global) or --set mbs=N (micro);",
    "run llama3.1 --mbs 2": "use --set mbs=VALUE;",
    "run llama3.1 --micro-batch-size 2": "use --set mbs=VALUE;",
    "run llama3.1 -tp 4": "no option '-tp': use --set tp=VALUE;",
    "run llama3.1 --tensor-model-parallel-size 4": "use --set tp=VALUE;",
    "run llama3.1 --seq-length 4096": "use --set sequence_length=VALUE;",
    "run llama3.1 --lr 1e-4": "use --set lr=VALUE;",
    "run llama3.1 tp=4": "'tp=4' is not a workload: use --set tp=4",
    "run llama3.1 steps=4": "'steps=4' is not a workload: use --steps 4",
    "run llama3.1 --set batch_size=4": "unknown key for llama3.1: use gbs",
    "predict llama3.1 --tp 4": "use --set tp=VALUE;",
    # options and words of plugins
    "run llama3.1 --account me": "no option '--account': use --slurm-account;",
    "run llama3.1 -A me": "use --slurm-account;",
    "run llama3.1 --partition gpu": "use --slurm-partition;",
    "run llama3.1 --enable_nsys": "use --with nsys;",
    "run llama3.1 --nccl-trace": "use --with nccltrace;",
    "run llama3.1 --launcher sbatch": "no launcher named 'sbatch': use slurm",
    "run llama3.1 --runtime singularity": "no runtime named 'singularity': use apptainer",
    "run llama3.1 --with nsight": "no profiler named 'nsight': use nsys",
    "run megatron llama3.1": "no framework plugin named 'megatron': use nemo;",
    "sbatch run.sh": "no command named 'sbatch': use llmbx run;",
    "squeue": "use llmbx jobs;",
    "run llama3.1 --seq-len 4096": "use --set sequence_length=VALUE;",
    "run llama3.1 -n 8": "use --gpus;",
    "run llama3.1 --cpu": "use --gpu-type cpu;",
    # values
    "run llama3.1 --walltime 1h": "--walltime '1h': expected minutes or H:MM:SS, for example 90 or 1:30:00",
    f"run llama3.1 {ON_H100} --gpus 8,16": f"for several: llmbx sweep llama3.1 {ON_H100} --gpus 8,16;",
    "run llama3.1 --dtype bf16,fp8": "expected one; for several: llmbx sweep llama3.1 --dtype bf16,fp8",
    "run llama3.1 --gpu-type h100-80gb": "(did you mean 'h100'?)",
    "run llama3.1 --size 8": "(did you mean '8b' or '8b-1gpu'?)",
    "run llama3.1 --size 7b": "llama3.1 has no size '7b' (known: 405b,",
    "run llama3.1 --gpu-type h101": "no GPU type named 'h101' (known: a10, a100,",
    "jobs --status done": "--status done: unknown status: use completed",
    # workloads
    "run llama": "(did you mean 'llama2', 'llama3.1' or 'llama4'?)",
    "run llama3": "(did you mean 'llama3.1'?)",
    "run lama3": "(did you mean 'llama3.1'?)",
    "run llama3-8b": "(did you mean 'llama3.1'?)",
    "predict lama3.1-8b": "(did you mean 'llama3.1-8b'?)",
    "run llama3.1 --gpu-type gb250": "no GPU type named 'gb250' (known: a10, a100,",
    "run nemotron4": "no workload named 'nemotron4' (known: deepseek-v3,",
    "run nemo llama2": "no workload named 'llama2' in plugin 'nemo': it is one of plugin 'maxtext'",
    "run llama3.1 grok1": "expected one workload, got llama3.1, grok1",
    "run llama3.1-8b --size 70b": "llama3.1: expected one size, got 8b and 70b",
    "run llama3.1 8x": "llama3.1 has no size '8x' (known: 405b,",
    # verbs
    "train llama3.1": "no command named 'train': use llmbx run;",
    "ls": "use llmbx list;",
    "kill last": "use llmbx cancel;",
    "tail": "use llmbx logs --tail 20;",
    "version": "use llmbx --version;",
    "-V": "use --version;",
    "lama3.1": "(did you mean 'llmbx run llama3.1'?);",
    "nemo": "use llmbx list --plugin nemo;",
    "sttaus": "(did you mean 'status'?);",
    "help frobnicate": "no command named 'frobnicate'; see `llmbx --help`",
    "jobs rm last": "use llmbx jobs --columns id,folder, and delete the folder of a run;",
    "jobs list": "use llmbx jobs;",
    "jobs show": "no command named 'show' (known: rebuild, tag, untag);",
    "image pull x": "use llmbx image prepare;",
    "image rm x": "use llmbx image prune;",
    "plugins install x": "use llmbx plugins enable;",
    "export --csv": "use llmbx export csv;",
    # options of other verbs
    "atlas --model llama3.1": "use WORKLOAD without an option;",
    "jobs --all": "use --user all;",
    "logs --lines 5": "use --tail;",
    "logs --tail 5 --follow": "--tail cannot be combined with --follow",
    "profile llama3.1 --profiler nsys": "use --tool;",
    "logs --tail": "llmbx logs: --tail needs a value: --tail VALUE; see `llmbx logs --help`",
    "list --gpu h100": "use --here;",
    "list --all": "use --here or no option, which lists all;",
    "doctor --fix": "use --format table, which names the fix of each broken item;",
    "run llama3.1 --hf-token x": "use HF_TOKEN=TOKEN llmbx run;",
    "run llama3.1 --wandb": "use --tag and llmbx export, for other tools;",
    "run llama3.1 --queue gpu": "use --slurm-partition;",
    "run llama3.1 --mem 64G": "use --slurm-arg mem=SIZE;",
    "predict llama3.1 --gpus 8,16": "--gpus '8,16': expected an integer of at least 1; see `llmbx predict --help`",
}
"""What is typed, and what the line on standard error says, among others."""

ACCEPTED = {
    "-v": "llmbx ",
    "help": "Usage: llmbx [OPTIONS]",
    "help run": "Usage: llmbx run [OPTIONS]",
    "help jobs tag": "Usage: llmbx jobs tag [OPTIONS]",
    "show llama3.1 --walltime 1:00:00 --format csv": "walltime_minutes,60,",
    "show llama3.1 --walltime 1-00:00:01 --format csv": "walltime_minutes,1441,",
    "show llama3.1 mini --dtype bfloat16 --format csv": "dtype,bf16,",
    "run llama3.1-8b --gpu_type h100 --gpus 8 --dry_run": "llama3.1 8b fp8 on 8 x h100",
    "run llama3.1_8B --size 8b --gpu-type h100 --gpus 8 --dry-run": "llama3.1 8b fp8 on 8 x h100",
    "run nemo llama3.1 8b --gpu-type h100 --gpus 8 --dry-run": "llama3.1 8b fp8 on 8 x h100",
    "run meta-llama/Llama-3.1-8B --gpu-type H100 --gpus 8 --dry-run": "llama3.1 8b fp8 on 8 x h100",
    "show Qwen/Qwen3-30B-A3B --gpu-type h100 --gpus 16 --format csv": "size,30b-a3b,",
    "show llama3.1:8b --gpu-type h100 --gpus 8 --format csv": "size,8b,",
    "list Llama3.1": "llama3.1",
    "run -w llama3.1-8b --gpu-type b200 --gpus 8 --dtype fp8-mx --dry-run": "llama3.1 8b mxfp8 on 8 x b200",
    f"show llama3.1 {ON_H100} --gpus 8 --set tensor_model_parallel_size=2 --format csv": "tp,2,",
    "list llama3.1-8b": "llama3.1",
    "sweep llama3.1-8b --gpu-type h100 --gpus 8,16 --dry-run": "llama3.1 8b fp8 h100 16",
}
"""What other tools' users type and llmbx takes, and what it prints."""


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty install and home, without GPUs and without a cluster profile."""
    for name in [name for name in os.environ if name.startswith(("LLMB", "SLURM", "SBATCH"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.chdir(tmp_path)


def answer(command: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command line, in this process."""
    out, error = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["llmbx", *shlex.split(command)])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            code = main._run()
    return code, out.getvalue(), error.getvalue()


@pytest.mark.parametrize("command", INSTEAD)
def test_the_line_says_what_to_type_instead(command: str) -> None:
    code, _, text = answer(command)
    assert code == 2 and len(text.splitlines()) == 1
    assert INSTEAD[command] in text


@pytest.mark.parametrize("command", ACCEPTED)
def test_what_can_only_mean_one_thing_is_taken(command: str) -> None:
    code, text, error = answer(command)
    assert code == 0, error
    assert ACCEPTED[command] in text


def test_one_workload_has_one_prediction_whatever_it_is_called() -> None:
    calls = ("llama3.1 --size 8b", "llama3.1-8b", "llama3.1 8b", "nemo llama3.1-8b", "llama3-8b")
    texts = {answer(f"predict {call} --gpu-type h100 --gpus 8 --format json")[1] for call in calls}
    assert len(texts) == 1 and '"configuration_from": "catalog, recipe' in texts.pop()


def test_names_that_differ_in_digits_or_one_of_few_letters_are_others() -> None:
    gpus = ("a100", "b200", "gb200", "h100", "h200", "mi300x")
    assert [near(name, gpus) for name in ("v100", "h10", "h1000", "h300", "mi325x")] == [""] * 5
    assert near("mi300", gpus) == " (did you mean 'mi300x'?)"
    assert near("NVIDIA H100 80GB HBM3", gpus) == " (did you mean 'h100'?)"


def test_what_a_synonym_leads_to_exists() -> None:
    names = {"HF_TOKEN", "gbs", "mbs", "fp8", "WORKLOAD", "ENABLE_CHECKPOINT", "LOAD_CHECKPOINT_PATH", "LLMBX_CONFIG"}
    names |= {*get_args(Status), *get_args(JobState), *_words(main.cli, click.Context(main.cli))}
    names |= {name for kinds in (load().launchers(), load().runtimes()) for name in kinds}
    names |= {*load().profilers(), *load().frameworks()}
    phrases = [*synonyms_of_tools(), *load().synonyms]
    assert [phrase for phrase in phrases if phrase.replace("=", " ").split()[0] not in names] == []


def _words(command: click.Command, context: click.Context) -> Iterator[str]:
    """The names of all options and commands below a command."""
    yield from (name for param in command.get_params(context) for name in param.opts)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield name
            below = command.get_command(context, name)
            assert below is not None
            yield from _words(below, click.Context(below, info_name=name, parent=context))
