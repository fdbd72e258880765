"""Facts of nodes: what is read, how it is judged, and how nodes are compared. No GPU is real."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from llmbx.api import UsageError
from llmbx.model import Launch, Phase, RunSpec
from llmbx_accept.facts import inspect as inspection
from llmbx_accept.facts import waiting
from llmbx_accept.facts.checks import checks_for, configuration, program, read_limits
from llmbx_accept.facts.judge import Inspection, NodeAnswer, inspect
from llmbx_accept.facts.node import probe
from llmbx_accept.facts.waiting import Answers, wait_for_answers
from llmbx_accept.plugin import register_companions
from llmbx_accept.settings import SiteCheck

from . import stand_in_gpus

CHECKS = checks_for("h100")
EXPECTED = json.loads(configuration(CHECKS, gpus=8, gpu_type="h100"))["expected"]


def answer(node: str = "n1", **faults: str) -> NodeAnswer:
    """What a node with stand-in GPUs answers."""
    cuda = faults.pop("cuda", None)
    facts = {**probe.parse_smi(stand_in_gpus.smi(faults)), "gpu.answers": "yes"}
    if cuda:
        rows = [{"cuda": row.cuda, "driver": row.driver, "forward": row.forward} for row in read_limits().cuda]
        reader = probe.Node({"cuda": cuda, "cuda_drivers": rows})
        facts.update(probe._cuda(reader, str(facts["gpu.driver"])))
    return NodeAnswer(node=node, facts=facts)


def judged(*answers: NodeAnswer) -> Inspection:
    return inspect(answers, CHECKS, EXPECTED)


def findings(*answers: NodeAnswer) -> dict[str, str | None]:
    return {f"{cell.node} {cell.check}": cell.reason for cell in judged(*answers).faults}


def test_healthy_gpus_have_no_finding_and_what_was_not_read_is_not_passed() -> None:
    cells = judged(answer()).cells
    assert {cell.state for cell in cells} == {"ok", "not checked"}
    states = {cell.check: cell.state for cell in cells}
    assert states["gpu.ecc_uncorrected"] == "ok"
    assert states["nvlink.down"] == states["cpu.governor"] == states["gpu.cuda_of_image"] == "not checked"


@pytest.mark.parametrize(
    ("faults", "check", "reason"),
    [
        ({"count": "7"}, "gpu.count", "7, at least 8 is expected"),
        ({"NVIDIA H100 80GB HBM3": "NVIDIA A100-SXM4-80GB"}, "gpu.type", "7: NVIDIA A100-SXM4-80GB: another type"),
        ({"<dram_uncorrectable>0": "<dram_uncorrectable>3"}, "gpu.ecc_uncorrected", "7: 3"),
        ({"<remapped_row_pending>No": "<remapped_row_pending>Yes"}, "gpu.rows_pending", "7: Yes"),
        ({"thermal_slowdown>Not Active": "thermal_slowdown>Active"}, "gpu.slowdown", "7: hw_thermal_slowdown"),
        ({"81005 MiB": "40000 MiB"}, "gpu.memory_free", "7: 0.49"),
        ({"<current_power_limit>700": "<current_power_limit>500"}, "gpu.power_limit", "7: 500.0, at least 693"),
        ({"Enabled</persistence_mode>": "Disabled</persistence_mode>"}, "gpu.persistence", "7: Disabled"),
        ({"<state>Completed": "<state>In Progress"}, "fabric.state", "7: In Progress"),
    ],
)
def test_a_fault_of_one_gpu_is_named_with_its_number(faults: dict[str, str], check: str, reason: str) -> None:
    ((place, text),) = findings(answer(**faults)).items()
    assert place == f"n1 {check}" and text is not None and text.startswith(reason)


@pytest.mark.parametrize(
    ("cuda", "driver", "state"),
    [
        ("13.1", "560.35.03", "bad"),  # the case of NVIDIA-NeMo/Megatron-Bridge#4409
        ("13.1", "580.95.05", "ok"),
        ("13.1", "570.124.06", "ok"),  # by the forward compatibility package
        ("12.8", "560.35.03", "ok"),
        ("14.0", "580.95.05", "not checked"),
    ],
)
def test_the_cuda_of_the_image_is_compared_with_the_driver(cuda: str, driver: str, state: str) -> None:
    cells = {cell.check: cell.state for cell in judged(answer(cuda=cuda, driver=driver)).cells}
    assert cells["gpu.cuda_of_image"] == state


def test_a_node_whose_stack_differs_is_named_and_the_others_are_not() -> None:
    nodes = [answer(f"n{number}", driver="560.35.03" if number == 5 else "580.95.05") for number in range(8)]
    assert findings(*nodes) == {"n5 gpu.driver": "560.35.03; 7 of 8 nodes have 580.95.05"}
    assert judged(*nodes).isolate == ("n5",) and judged(*nodes).exit_code == 4


def test_of_two_nodes_that_differ_neither_is_called_bad() -> None:
    both = judged(answer("n1"), answer("n2", driver="560.35.03"))
    assert {cell.node for cell in both.faults} == {"n1", "n2"}
    assert both.isolate == () and both.exit_code == 4


def test_memory_may_differ_a_little() -> None:
    def node(name: str, total: float) -> NodeAnswer:
        return NodeAnswer(node=name, facts={"memory.total": total})

    equal = [node("a", 2015.4), node("b", 2015.1), node("c", 2010.9)]
    assert not judged(*equal).faults
    assert judged(*equal, node("d", 1887.0)).isolate == ("d",)  # a module less


def test_a_silent_node_is_left_out_and_passes_nothing() -> None:
    quiet = judged(answer("n1"), NodeAnswer(node="n2", error="no answer: it is down"))
    assert quiet.isolate == ("n2",) and quiet.exit_code == 4
    assert {cell.state for cell in quiet.cells if cell.node == "n2"} == {"not checked"}


def test_tools_are_parsed() -> None:
    faults = {"link": "<inactive>"}
    links = probe.parse_nvlink(stand_in_gpus.links(faults, False), stand_in_gpus.links(faults, True))
    assert links == {"nvlink.up": {"0": 17}, "nvlink.down": {"0": 1}, "nvlink.errors": {"0": 0}}
    blackwell = "GPU 0: B200\n  Link 0: Rx Errors: 2\n  Link 0: Symbol BER: 15e-255\n  Link 0: FEC Errors - 0: 361407"
    blackwell += "\n  Link 0: Link recovery successful events: 4\n  Link 0: Link recovery failed events: 1\n"
    assert probe.parse_nvlink("", blackwell)["nvlink.errors"] == {"0": 3}
    kernel = "[1.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n[2.0] other"
    assert probe.parse_xids(kernel) == {"gpu.xids": "79"}
    assert probe.parse_mpi_list("MPI plugin types are...\n\tnone\n\tpmi2\n")["slurm.mpi"] == "none pmi2"
    assert probe.parse_mpi_list("srun: MPI types are...\nsrun: none\nsrun: pmix_v3\n")["slurm.mpi"] == "none pmix"
    memory = probe.parse_meminfo("MemTotal:  1048576 kB\nSwapTotal: 2097152 kB\nSwapFree: 1048576 kB\n")
    assert (memory["memory.total"], memory["memory.swapped"]) == (1.0, 1.0)
    ports = "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Polling\n\t\tRate: 400\n"
    down = {"ib.count": 1, "ib.active": 0, "ib.state": {"mlx5_0.1": "DOWN"}}
    assert probe.parse_ibstat(ports + "\t\tLink layer: InfiniBand\n") == down
    enroot = "# where\nENROOT_CACHE_PATH /raid/cache  # fast\nENROOT_TOKEN abc\n"
    assert probe.parse_settings(enroot) == "ENROOT_CACHE_PATH /raid/cache"


def test_formats_of_other_drivers_are_read() -> None:
    volta = stand_in_gpus.smi({}).replace("gpu_power_readings", "power_readings").replace("current_power", "power")
    begin, end = volta.index("<volatile>"), volta.index("</volatile>")
    counters = "<volatile><double_bit><l1_cache>1</l1_cache><total>3</total></double_bit>"
    facts = probe.parse_smi(volta[:begin] + counters + volta[end:])
    assert facts["gpu.power_limit"]["0"] == 700 and facts["gpu.ecc_uncorrected"]["0"] == 3
    warned = probe.parse_smi(stand_in_gpus.smi({}) + "WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n")
    assert warned["gpu.inforom"] == "corrupted: 0000:3B:00.0" and warned["gpu.count"] == 8


@pytest.mark.parametrize(
    ("name", "fabric", "down"), [("NVIDIA L4", {}, None), ("A100-SXM4", {}, {"0": 1}), ("H100", {"0": "x"}, {"0": 1})]
)
def test_cards_without_a_bridge_have_no_link_that_is_down(name: str, fabric: dict[str, str], down: Any) -> None:
    node = probe.Node({}, tool=lambda *argv: f"GPU 0: {name}\n\t Link 0: <inactive>\n" if "-s" in argv else "")
    node.facts = {"gpu.type": {"0": name}, **({"fabric.state": fabric} if fabric else {})}
    assert probe._nvlink(node).get("nvlink.down") == down


def test_a_gpu_with_fewer_lanes_than_the_others_is_bad_and_a_slot_with_fewer_is_noted() -> None:
    half = answer(**{"<current_link_width>16x": "<current_link_width>8x"})
    narrow = half.replace(facts={**half.facts, "pcie.width": dict.fromkeys(half.facts["pcie.width"], 8.0)})
    assert [cell.check for cell in judged(half).faults] == ["pcie.width", "pcie.lanes"]
    assert [cell.check for cell in judged(narrow).faults] == ["pcie.lanes"] and not judged(narrow).exit_code


def test_a_site_changes_checks_and_turns_them_off() -> None:
    site = {"disk.free": SiteCheck(limit=100, severity="error"), "pcie.lanes": SiteCheck(off="A10G")}
    checks = checks_for("h100", site)
    node = NodeAnswer(node="n1", facts={"disk.free": {"/tmp": 50.0}, "pcie.width": {"0": 8.0}})
    seen = inspect([node], checks, EXPECTED)
    states = {cell.check: (cell.state, cell.reason) for cell in seen.cells}
    assert states["pcie.lanes"] == ("off", "A10G") and states["disk.free"][0] == "bad" and seen.exit_code == 4
    assert json.loads(configuration(checks))["checks"][-1]["id"] == "node.kernel"
    for wrong in ({"disk.fre": SiteCheck()}, {"disk.free": SiteCheck(limit="much")}, {"gpu.uuid": SiteCheck(limit=1)}):
        with pytest.raises(UsageError, match=r"accept\.checks"):
            checks_for("h100", wrong)


def tree(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_files_of_a_node_are_read(tmp_path: Path) -> None:
    port = "sys/class/infiniband/mlx5_0/ports/1"
    cpu = "sys/devices/system/cpu"
    tree(
        tmp_path,
        {
            f"{port}/state": "4: ACTIVE\n", f"{port}/rate": "400 Gb/sec (4X NDR)\n",
            f"{port}/counters/symbol_error": "170\n", f"{port}/counters/link_downed": "2\n",
            "sys/class/infiniband/mlx5_1/ports/1/state": "1: DOWN\n",
            "sys/class/infiniband/mlx5_1/ports/1/rate": "40 Gb/sec (4X QDR)\n",
            "sys/class/infiniband/mlx5_1/ports/1/link_layer": "Ethernet\n",
            f"{cpu}/cpu0/cpufreq/scaling_governor": "powersave\n",
            f"{cpu}/cpu0/cpuidle/state0/latency": "1\n", f"{cpu}/cpu0/cpuidle/state0/disable": "0\n",
            f"{cpu}/cpu0/cpuidle/state3/latency": "170\n", f"{cpu}/cpu0/cpuidle/state3/disable": "0\n",
            "proc/sys/kernel/numa_balancing": "1\n",
            "etc/slurm/plugstack.conf.d/pyxis.conf": "required /usr/lib64/slurm/spank_pyxis.so\n",
        },
    )  # fmt: skip

    def no_tool(*argv: str) -> str:
        raise probe.Unread(f"{argv[0]} was not found")

    node = probe.Node({}, str(tmp_path), no_tool)
    node.read()
    cells = inspect([NodeAnswer(node="n1", facts=node.facts, unread=node.unread)], CHECKS, EXPECTED).cells
    bad = {cell.check for cell in cells if cell.state == "bad"}
    assert {"ib.errors", "cpu.governor", "cpu.idle_states", "cpu.numa_balancing"} <= bad
    states = {cell.check: cell for cell in cells}
    assert (node.facts["ib.count"], node.facts["ib.active"]) == (2, 1)
    assert states["ib.state"].state == states["ib.rate"].state == states["container.pyxis"].state == "ok"
    assert states["gpu.count"].reason == "nvidia-smi was not found"


def ask(name: str, mode: str = "", **changes: Any) -> str:
    """What the probe prints on this machine, started as on a node: its text, and nothing of llmbx."""
    argv = [sys.executable, "-I", "-S", "-c", program(), configuration(checks_for("cpu"), **changes)]
    env = {"PATH": "/usr/bin:/bin", "SLURMD_NODENAME": name}
    return subprocess.run([*argv, *mode.split()], env=env, capture_output=True, text=True, check=True).stdout


def test_lines_of_many_nodes_arrive_mixed() -> None:
    lines = [line for pair in zip(ask("n1").splitlines(), ask("n2").splitlines(), strict=False) for line in pair]
    assert len(lines) > 4 and max(map(len, lines)) < 800
    answers = inspection.parse("\n".join(["srun: note", *lines[:-1], lines[-1][:50]]), 0.0, 1e12)
    assert "n1" in answers and answers["n1"].facts["cpu.count"] >= 1


def test_a_clock_outside_of_the_call_is_off_by_at_least_the_difference() -> None:
    (node,) = inspection.parse(ask("n1"), 1e12, 1e12 + 1).values()
    assert node.facts["clock.skew"] > 1e9


def test_before_a_run_errors_end_it_and_warnings_are_notes() -> None:
    checks = [{"id": "a", "fact": "x", "severity": "error", "drift": True}, {"id": "b", "severity": "warning"}]
    verdicts = [["ok", "580", ""], ["bad", "7", "7; too many"]]
    assert probe.preflight(checks, verdicts, {"x": {"0": "580", "1": "580"}}) == ["same.a=580", "note=b: 7, too many"]
    assert probe.preflight(checks, [["bad", "5", "old"], ["not checked", "", "no tool"]], {}) == [
        "bad=a: old",
        "note=not checked: b: no tool",
    ]
    assert "same.memory.total" not in ask("n1", "lines"), "it may differ a little"
    assert all(line.startswith(("note=", "same.")) for line in ask("n1", "lines").splitlines())


def test_every_check_reads_a_fact_that_the_probe_reads() -> None:
    facts = {name for names, _ in probe.READERS for name in names.split()} | {"clock.skew"}
    assert {check.fact for check in read_limits().check} <= facts
    assert {check.of for check in read_limits().check if check.of} <= facts


def test_the_page_has_all_checks_as_they_are() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "check-nodes.md").read_text()
    for check in read_limits().check:
        means = check.means[0].upper() + check.means[1:]
        row = f"| `{check.id}` | {means} | {check.severity}, {check.action} | {check.source} | {check.false_alarms} |"
        assert row in page, row


def test_a_run_checks_its_nodes_if_its_launcher_is_to(make_spec: Callable[..., RunSpec]) -> None:
    spec = make_spec(
        gpu_type="h100", gpus=16, gpus_per_node=8, launcher="slurm", plugin_settings={"slurm": {"preflight": True}}
    )
    phase = Phase(role="train", argv=("/env/bin/python3.11", "train.py"))
    launch = Launch(nodes=2, ranks_per_node=8, gpus_per_rank=1, phases=(phase,))
    (check,) = register_companions(spec, launch)
    assert check.before and check.argv[0] == "/env/bin/python3.11"
    assert json.loads(check.files["limits.json"])["expected"]["gpus"] == 8
    assert register_companions(spec.replace(plugin_settings={}), launch) == []


NODES = ("n1", "n2", "n3")
HANGS = "echo heard n1 n2; echo 'srun: error: n3: task 2: hangs' >&2; exec sleep 60"


def test_a_node_that_hangs_does_not_keep_the_answers_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LATE_S", 0.3)
    monkeypatch.setattr(waiting, "FIRST_NOTE_S", 0.1)
    lines: list[str] = []
    answers = wait_for_answers(["/bin/sh", "-c", HANGS], NODES, lambda output: output.split()[1:], lines.append)
    assert answers.output == "heard n1 n2\n" and answers.given_up is not None
    assert answers.reason("n3").endswith("s; srun: error: n3: task 2: hangs")
    assert any("2 of 3 nodes have answered; waits for n3" in line for line in lines)


def test_the_error_that_names_a_node_is_its_reason() -> None:
    errors = "srun: error: n1: no python3\nsrun: error: n11: killed\nsrun: note\n"
    answers = Answers(output="", errors=errors, given_up=None, began=0.0, ended=1.0)
    reasons = [answers.reason(node) for node in ("n1", "n11", "n2")]
    assert reasons == ["srun: error: n1: no python3", "srun: error: n11: killed", "srun: note"]


def test_a_tool_that_hung_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "LIMIT_S", 0.1)
    monkeypatch.setattr(probe, "HUNG", {})
    for limit_s in (0.1, 60):
        monkeypatch.setattr(probe, "LIMIT_S", limit_s)
        with pytest.raises(probe.Unread, match=r"sleep did not answer within 0\.1 s"):
            probe.run("sleep", "60")
