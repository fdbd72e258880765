"""The packages of `llmbx plugins new`: their own tests, the check of all, and a run without installing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx_kit.template import KINDS

Llmbx = Callable[..., subprocess.CompletedProcess[str]]


PAGE = Path(__file__).parents[2] / "docs/skeletons.md"
FILE = re.compile(r"^`([\w./-]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def of_page(kind: str, folder: Path) -> dict[str, str]:
    """Write the files of one kind, as docs/skeletons.md shows them, into `folder`; return them by path."""
    shown = {name: text for name, text in FILE.findall(PAGE.read_text()) if f"my_{kind}" in f"{name} {text}"}
    shown["tests/conftest.py"] = 'pytest_plugins = ["llmbx.testing"]\n'
    shown["pyproject.toml"] = next(
        text for name, text in FILE.findall(PAGE.read_text()) if name == "pyproject.toml" and f"llmbx_my_{kind}" in text
    )
    for name, text in shown.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / f"src/llmbx_my_{kind}/__init__.py").touch()
    return shown


@pytest.mark.parametrize("kind", KINDS)
def test_a_skeleton_is_what_the_command_writes_and_installs_and_its_tests_pass(
    kind: str, llmbx: Llmbx, tmp_path: Path
) -> None:
    folder, made, site = tmp_path / "shown", tmp_path / "made", tmp_path / "site"
    assert llmbx("plugins", "new", f"my_{kind}", f"--{kind}", "--folder", str(made)).returncode == 0
    for name, text in of_page(kind, folder).items():
        assert (made / name).read_text() == text
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--target", str(site), str(folder)], check=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LLMB", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "tests"],
        env={**kept, "PYTHONPATH": str(site), "MY_RUNTIME_PREFIX": sys.prefix}, cwd=folder, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_skeletons_work_together(llmbx: Llmbx, tmp_path: Path) -> None:
    for kind in KINDS:
        of_page(kind, tmp_path / kind)
    env = {
        "LLMBX_PLUGINS": os.pathsep.join(str(tmp_path / kind) for kind in KINDS),
        "MY_RUNTIME_PREFIX": sys.prefix,
    }
    tools = ("--runtime", "my_runtime", "--launcher", "my_launcher", "--with", "my_profiler")
    done = llmbx("run", "my_framework", *tools, "--steps", "20", "--format", "json", env=env)
    result = json.loads(done.stdout)
    assert (done.returncode, result["data_valid"]) == (0, True), done.stderr
    assert (result["runtime"], result["launcher"]) == ("my_runtime", "my_launcher")
    assert result["profilers"] == ["my_profiler"]
    shown = llmbx("my_verb", "--top", "2", "--format", "json", env=env)
    first, second = json.loads(shown.stdout)
    assert first["time_s"] >= second["time_s"] > 0


def test_the_formula_of_a_second_workload_is_checked(llmbx: Llmbx, tmp_path: Path) -> None:
    folder = tmp_path / "my_lm"
    assert llmbx("plugins", "new", "my_lm", "--folder", str(folder)).returncode == 0
    package = folder / "src/llmbx_my_lm"
    catalog = (package / "my_lm.toml").read_text()
    second = catalog.replace('name = "my_lm"', 'name = "wide"').replace('folder = "my_lm"', 'folder = "wide"')
    (package / "wide.toml").write_text(second.replace("hidden_size = 16", "hidden_size = 24"))
    (package / "large.toml").write_text(
        second.replace('name = "wide"', 'name = "large"').replace("mini", "8b").replace('"cpu"', '"h100"')
    )
    plugin = package / "plugin.py"
    text = plugin.read_text()
    load = 'load_workload(resources.files(__package__) / "{0}.toml")'
    all_three = ", ".join(load.format(name) for name in ("my_lm", "wide", "large"))
    text = text.replace(f"[{load.format('my_lm')}]", f"[{all_three}]")
    plugin.write_text(text.replace("* spec.model.hidden_size *", "* 16 *"))
    checked = llmbx("plugins", "check", str(folder), "--only", "mini,flops", "--format", "json")
    mini, flops = json.loads(checked.stdout)["my_lm"]
    assert (checked.returncode, mini["status"], flops["status"]) == (1, "not checked", "failed")
    assert mini["details"][2] == "not checked: large: it has no size 'mini' with a row for a CPU"
    (problem,) = flops["details"]
    assert problem.startswith("wide fp32: ") and "+50.00 % of my_lm-1" in problem


def test_a_folder_is_checked_and_run_without_installing_it(llmbx: Llmbx, tmp_path: Path) -> None:
    folder = tmp_path / "my_lm"
    assert llmbx("plugins", "new", "my_lm", "--folder", str(folder)).returncode == 0
    checked = llmbx("plugins", "check", str(folder), "--format", "json")
    (outcomes,) = json.loads(checked.stdout).values()
    assert {each["check"]: each["status"] for each in outcomes} == {
        "hooks": "ok", "import": "ok", "catalog": "ok", "log": "ok", "profiler": "not applicable",
        "launcher": "not applicable", "runtime": "not applicable", "mini": "ok", "flops": "ok", "faults": "ok",
    }, checked.stdout  # fmt: skip
    done = llmbx("run", "my_lm", "--plugin", str(folder), "--steps", "20", "--format", "json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["data_valid"]) == (0, True)
    assert result["loss"]["last"] < result["loss"]["first"]


def test_wrong_flops_and_a_loss_that_rises_are_found(llmbx: Llmbx, tmp_path: Path) -> None:
    folder = tmp_path / "my_lm"
    assert llmbx("plugins", "new", "my_lm", "--folder", str(folder)).returncode == 0
    plugin, program = folder / "src/llmbx_my_lm/plugin.py", folder / "src/llmbx_my_lm/entry/train.py"
    plugin.write_text(plugin.read_text().replace("6 * spec.model", "5 * spec.model"))
    program.write_text(program.read_text().replace('[w - spec["settings"]["lr"] * g', "[w + 0.01 * g"))
    checked = llmbx("plugins", "check", str(folder), "--only", "mini,flops")
    assert checked.returncode == 1
    assert "the loss does not fall" in checked.stdout
    assert "+20.00 % of my_lm-1" in checked.stdout
