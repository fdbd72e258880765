"""Where a run is executed: launcher, runtime, image and nodes; and what its plugins refuse before it has a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from llmbx import hookimpl
from llmbx.errors import UsageError
from llmbx.launchers.local import LocalLauncher
from llmbx.model import Workload
from llmbx.plugins.manager import Plugins

from .curves import CLUSTER, CURVE, installed, resolved

TARGET = {"size": "70b", "gpu_type": "h100", "gpus": 64}
SMALL = {"size": "8b", "gpu_type": "h100", "gpus": 8}


def refusal(**options: Any) -> str:
    with pytest.raises(UsageError) as refused:
        resolved(**{**SMALL, **options})
    return str(refused.value)


@pytest.mark.parametrize(
    ("target", "per_node", "nodes", "origin"),
    [
        (TARGET, 8, 8, "h100 nodes"),
        ({**TARGET, "gpu_type": "gb200"}, 4, 16, "gb200 nodes"),
        ({"size": "70b-part", "gpu_type": "h100", "gpus": 2}, 2, 1, "h100 nodes"),
        ({"size": "mini", "gpus": 12}, 12, 1, "cpu nodes"),
        ({**TARGET, "gpus_per_node": 16}, 16, 4, "--gpus-per-node"),
        ({**SMALL, "gpus_per_node": 16}, 8, 1, "--gpus-per-node"),
    ],
)
def test_a_node_has_the_gpus_of_its_type_and_no_more_than_the_run(
    target: dict[str, Any], per_node: int, nodes: int, origin: str
) -> None:
    spec = resolved(**target)
    assert (spec.gpus_per_node, spec.nodes, spec.origins["gpus_per_node"]) == (per_node, nodes, origin)


def test_the_nodes_that_nvlink_connects_are_those_of_the_gpu_type() -> None:
    assert resolved(**{**TARGET, "gpu_type": "gb200"}).nvlink_domain_nodes == 18
    assert resolved(**TARGET).nvlink_domain_nodes is None


class Launcher(LocalLauncher):
    def __init__(self, name: str, reason: str | None) -> None:
        self.name, self.reason = name, reason

    def claims(self, nodes: int, on_gpus: bool, environ: Mapping[str, str]) -> str | None:
        if self.reason == "fails":
            raise OSError("no socket")
        return environ.get("ALLOCATION") or (self.reason if on_gpus else None)


def with_launchers(**reasons: str | None) -> Plugins:
    """The plugins, and launchers by name that claim every run on GPUs for their reason."""

    class Others:
        @hookimpl
        def register_launchers(self) -> list[Any]:
            return [Launcher(name, reason) for name, reason in reasons.items()]

    plugins = installed()
    plugins.manager.register(Others(), name="others")
    return plugins


def test_the_first_launcher_that_claims_a_run_is_its_default() -> None:
    local = resolved(**SMALL)
    assert (local.launcher, local.origins["launcher"]) == ("local", "default for one node")
    several = resolved(**TARGET)
    assert (several.launcher, several.origins["launcher"]) == ("batch", "the run needs several nodes")
    plugins = with_launchers(idle=None, eager="it takes all", late="it comes too late")
    spec = resolved(plugins=plugins, **SMALL)
    assert (spec.launcher, spec.origins["launcher"]) == ("eager", "it takes all")
    assert resolved(plugins=plugins, size="mini").launcher == "local", "on a CPU none of them claims it"
    assert resolved({"ALLOCATION": "job 7"}, plugins=plugins, size="mini").origins["launcher"] == "job 7"
    assert resolved(plugins=plugins, **SMALL, launcher="late").launcher == "late"


def test_a_launcher_that_fails_to_answer_is_left_out_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    spec = resolved(plugins=with_launchers(odd="fails", eager="it takes all"), **SMALL)
    assert spec.launcher == "eager"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("llmbx: warning: plugin 'others': claims of launcher 'odd' failed: OSError: no socket")
    assert line.endswith("; the launcher odd is left out")


def test_a_run_of_several_nodes_without_a_launcher_for_them_says_so() -> None:
    plugins = installed()
    plugins.manager.unregister(name="batch")
    spec = resolved(plugins=plugins, **TARGET)
    assert (spec.launcher, spec.origins["launcher"]) == ("local", "no installed launcher starts runs of several nodes")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"launcher": "btach"}, "--launcher: no launcher named 'btach' (did you mean 'batch'?)"),
        ({"runtime": "docker"}, "--runtime: no runtime named 'docker' (known: box, host)"),
        ({"cluster": {"launcher": "slurm"}}, f"{CLUSTER}: no launcher named 'slurm' (known: batch, local)"),
        ({"cluster": {"runtime": "bx"}}, f"{CLUSTER}: no runtime named 'bx' (did you mean 'box'?)"),
        ({"launcher": "btach", "size": "80b"}, "--launcher: no launcher named 'btach' (did you mean 'batch'?)"),
    ],
)
def test_a_launcher_or_runtime_that_no_plugin_has_is_refused_first(options: dict[str, Any], problem: str) -> None:
    assert refusal(**options) == problem


def test_the_runtime_auto_can_be_asked_for() -> None:
    """For example to override that of the profile."""
    spec = resolved({}, {"runtime": "box"}, **SMALL, runtime="auto")
    assert (spec.runtime, spec.origins["runtime"]) == ("auto", "--runtime")


def test_the_image_is_the_recipes_or_the_users() -> None:
    recipes = resolved(**SMALL)
    assert recipes.image is not None
    assert (recipes.image.reference, recipes.image.digest) == ("registry.example#team/new:2", "sha256:" + "2" * 64)
    assert recipes.origins["image"] == "recipe new"
    users = resolved(**SMALL, image="mine:1", accept_image_change=True)
    assert users.image is not None and users.image.digest is None, "the recipe's digest is not that of another image"
    assert (users.image.reference, users.image.source, users.origins["image"]) == ("mine:1", "--image", "--image")
    assert users.accept_image_change and not recipes.accept_image_change
    assert resolved(**SMALL, recipe="old").image is None
    assert "image" not in resolved(**SMALL, recipe="old").origins


@pytest.mark.parametrize(
    ("limits", "target", "minutes", "origin"),
    [
        ({"curve": 5, "default": 60}, SMALL, 5, CLUSTER),
        ({"pretrain_curve": 6, "default": 60}, SMALL, 6, CLUSTER),
        ({"default": 60, "dot": 7}, SMALL, 60, CLUSTER),
        ({"dot": 7}, SMALL, 30, "recipe new"),
        ({}, TARGET, 90, "recipe new"),
    ],
    ids=["workload", "alias", "default", "of another workload", "none"],
)
def test_the_time_limit_is_that_of_the_workload_on_the_cluster_or_of_the_recipe(
    limits: dict[str, int], target: dict[str, Any], minutes: int, origin: str
) -> None:
    spec = resolved({}, {"walltime_minutes": limits}, **target)
    assert (spec.walltime_minutes, spec.origins["walltime_minutes"]) == (minutes, origin)


def test_limits_of_a_request_reach_the_run() -> None:
    spec = resolved(**SMALL, stall_timeout_s=2.5, retries=0)
    assert (spec.stall_timeout_s, spec.retries, spec.origins["retries"]) == (2.5, 0, "--retries")
    assert resolved(**SMALL).stall_timeout_s is None


def test_the_launcher_completes_the_run_with_what_depends_on_the_rest() -> None:
    spec = resolved(**TARGET)
    assert spec.plugin_settings["batch"] == {"queue": "benchmarks", "nodes": 8}
    assert (spec.origins["batch.queue"], spec.origins["batch.nodes"]) == ("recipe new", "the number of GPUs")
    local = resolved(**SMALL)
    assert "batch" not in local.plugin_settings, "the recipe's defaults are for runs with this launcher"


def test_the_launcher_may_refuse_a_run_before_it_has_a_folder() -> None:
    assert refusal(environ={"INSIDE_JOB": "1"}, launcher="batch") == "a job cannot be submitted from inside a job"
    assert resolved({"INSIDE_JOB": "1"}, **SMALL).launcher == "local"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"plugin_settings": {"batch": {"queue": "x"}}},
         "--batch-queue is an option of batch, but the launcher is local: add --launcher batch"),
        ({"plugin_settings": {"probe": {"rate": 3}}},
         "--probe-rate is an option of probe, which is not enabled: add --with probe"),
        ({"plugin_settings": {"clock": {"unit": "s"}}},
         "--clock-unit is an option of clock, which is not enabled: use `llmbx profile --tool clock`"),
    ],
)  # fmt: skip
def test_an_option_of_a_plugin_that_the_run_does_not_use_is_refused(options: dict[str, Any], problem: str) -> None:
    assert refusal(**options, runtime="host") == problem


@pytest.mark.parametrize(
    ("options", "environ", "cluster"),
    [
        ({"wrappers": ("probe",), "plugin_settings": {"probe": {"rate": 3}}}, {}, None),
        ({"launcher": "batch", "plugin_settings": {"batch": {"queue": "x"}}}, {}, None),
        ({"runtime": "auto", "plugin_settings": {"batch": {"queue": "x"}}}, {}, None),
        ({}, {"BATCH_QUEUE": "x"}, None),
        ({}, {}, {"plugin_keys": {"batch": {"queue": "x"}}}),
        ({"plugin_settings": {"probe": {"enabled": False}}}, {}, None),
    ],
    ids=["used", "its launcher", "its runtime may be chosen", "a variable", "the profile", "switched off"],
)
def test_settings_that_are_used_or_only_defaults_are_accepted(
    options: dict[str, Any], environ: dict[str, str], cluster: dict[str, Any] | None
) -> None:
    spec = resolved(environ, cluster, **{**SMALL, "runtime": "host", **options})
    assert spec.findings == ()


def test_a_plugin_may_report_settings_without_effect() -> None:
    (finding,) = resolved({"PROBE_RATE": "3"}, **SMALL).findings
    assert (finding.problem, finding.fix, finding.warning) == ("PROBE_RATE has no effect", "add --probe", True)
    assert resolved({"PROBE_RATE": "3"}, **SMALL, wrappers=("probe",)).findings == ()


class Squares:
    """A second framework."""

    @hookimpl
    def register_workloads(self) -> list[Workload]:
        return [CURVE.replace(name="square", aliases=())]


def test_an_option_of_another_framework_is_refused() -> None:
    plugins = installed()
    plugins.manager.register(Squares(), name="squares")
    problem = refusal(plugins=plugins, workload="square", plugin_settings={"curves": {"seed": 4}})
    assert problem == "--curves-seed is an option of curves, but square is a workload of squares"
    with pytest.raises(UsageError, match=r"^no workload named 'square' in plugin 'curves'"):
        resolved(plugins=plugins, workload="square", plugin="curves")


def test_a_workload_of_two_frameworks_needs_the_plugins_name() -> None:
    class Copy(Squares):
        @hookimpl
        def register_workloads(self) -> list[Workload]:
            return [CURVE]

    plugins = installed()
    plugins.manager.register(Copy(), name="copies")
    problem = "workload 'curve' is claimed by the plugins copies and curves; choose one with --plugin copies"
    assert refusal(plugins=plugins) == problem
    assert resolved(plugins=plugins, **SMALL, plugin="copies").plugin == "copies"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"env": {"NOT-A-NAME": "1"}}, "--env: environment variable 'NOT-A-NAME': a name may contain only letters, "),
        ({"cluster": {"env": {"1X": "1"}}}, f"{CLUSTER}: environment variable '1X': a name may contain only letters, "),
        ({"env": {"A": "x\0"}}, "--env: environment variable A: a value cannot contain a NUL byte"),
    ],
)
def test_a_variable_that_no_script_can_export_is_refused_with_its_origin(options: dict[str, Any], problem: str) -> None:
    assert refusal(**options).startswith(problem)


def test_the_folder_of_a_mount_exists_where_the_ranks_run(tmp_path: Path) -> None:
    mount, absent = f"{tmp_path}:/data:ro", str(tmp_path / "absent")
    assert resolved(**SMALL, mounts=(mount,)).mounts == (mount,)
    assert refusal(mounts=(absent,)) == f"mount '{absent}': {absent} does not exist on this machine"
    assert refusal(cluster={"mounts": (absent,)}) == f"mount '{absent}': {absent} does not exist on this machine"
    assert resolved(**SMALL, launcher="batch", mounts=(absent,)).mounts == (absent,), "nodes may have it"
    assert refusal(launcher="batch", mounts=("data",)).startswith("mount 'data': expected SOURCE[:TARGET][:ro]")
