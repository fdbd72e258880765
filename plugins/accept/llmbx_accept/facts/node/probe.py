"""Read the facts of this node, judge them, and print both (docs/how-to/check-nodes.md).

Usage: probe.py CONFIG [lines]. CONFIG is JSON, or @FILE: `expected` (what the node must have), `checks` (the
limits), `cuda` (the drivers that releases of CUDA need). It prints JSON in short numbered lines, or
with `lines`, before a run: `bad=`, `note=` and `same.NAME=` a line.

It runs on a node without llmbx: one file, Python 3.8 or newer and its standard library. It reads
only, and sets nothing. A fact that cannot be read is absent, and `unread` says why.
"""

from __future__ import annotations

import ctypes
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from typing import Any, Callable, Dict

MARK = "llmbx-node-facts"
CHUNK = 600
"""Characters of a line: lines of many nodes arrive mixed, and schedulers pass short ones whole."""
LIMIT_S = 60
"""Seconds that a tool may take. One that hangs is a finding."""
HUNG: dict[str, str] = {}
"""Tools that hung, which are not asked a second time, with the reason."""
SLOWDOWNS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
PORT_ERRORS = ("symbol_error", "link_error_recovery", "port_rcv_errors")
"""Counters of a port. `link_downed` is none of them: each restart of a switch or a node adds to it."""
LINK_ERRORS = re.compile(
    r"(?:Replay|Recovery|CRC|Malformed packet|Buffer overrun|Rx|Rx remote|Rx General|Local link integrity|"
    r"Effective|Symbol) Errors: (\d{1,20})|Link recovery failed events: (\d{1,20})"
)
"""Of a link; from Blackwell on other ones. FEC errors are corrected: healthy links count billions of them."""
PLUGSTACKS = ("/etc/slurm*", "/opt/slurm/etc", "/usr/local/etc/slurm", "/run/slurm/conf")
"""Where Slurm's plugstack.conf is, besides the folder of SLURM_CONF."""
RUNTIMES = ("enroot", "apptainer", "singularity", "docker", "podman")

Facts = Dict[str, Any]
"""Of a fact's name to its value, or to the values of several objects (GPUs, ports)."""
Run = Callable[..., str]


class Unread(Exception):
    """Why a fact could not be read."""


def run(*argv: str) -> str:
    """Return what a tool prints. Raises `Unread` if it is missing, fails or hangs."""
    if argv[0] in HUNG:
        raise Unread(HUNG[argv[0]])
    if shutil.which(argv[0]) is None:
        raise Unread(argv[0] + " was not found")
    try:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
            timeout=LIMIT_S, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        HUNG[argv[0]] = f"{argv[0]} did not answer within {LIMIT_S} s"
        raise Unread(HUNG[argv[0]]) from None
    except OSError as error:
        raise Unread(f"{argv[0]}: {error.strerror}") from None
    text, errors = (part.decode("utf-8", "replace") for part in (done.stdout, done.stderr))
    if done.returncode:
        first = (errors.strip() or text.strip()).split("\n")[0]
        raise Unread(f"{argv[0]} failed: {first or done.returncode}")
    return text if text.strip() else errors  # Slurm before 21.08 lists its MPI plugins on stderr


def number(text: str | None) -> float | None:
    """Return the number that a text such as `700.00 W` begins with; None if it has none."""
    matched = re.match(r"\s*(-?\d+(?:\.\d+)?)", text or "")
    return float(matched.group(1)) if matched else None


# ---- parsers: text of a tool to facts


def parse_smi(text: str) -> Facts:
    """Parse `nvidia-smi -q -x`. What a GPU or a driver does not have is absent."""
    begin, end = text.find("<nvidia_smi_log"), text.rfind("</nvidia_smi_log>")
    root = ElementTree.fromstring(text[begin : end + len("</nvidia_smi_log>")] if begin >= 0 <= end else text)
    gpus = root.findall("gpu")
    facts: Facts = {"gpu.count": len(gpus)}
    if "infoROM is corrupted" in text:  # a line before or after the table
        facts["gpu.inforom"] = "corrupted: " + ", ".join(re.findall(r"corrupted at gpu (\S{1,40})", text))
    elif gpus:
        facts["gpu.inforom"] = "intact"
    for name, path in (("gpu.driver", "driver_version"), ("gpu.cuda", "cuda_version")):
        if root.findtext(path):
            facts[name] = root.findtext(path)
    for place, gpu in enumerate(gpus):
        for name, value in _gpu(gpu).items():
            facts.setdefault(name, {})[str(place)] = value
    return facts


TEXTS = {
    "gpu.type": "product_name",
    "gpu.uuid": "uuid",
    "gpu.vbios": "vbios_version",
    "gpu.persistence": "persistence_mode",
    "gpu.ecc_mode": "ecc_mode/current_ecc",
    "gpu.recovery": "gpu_recovery_action",
    "gpu.rows_pending": "remapped_rows/remapped_row_pending",
    "gpu.rows_failed": "remapped_rows/remapped_row_failure",
    "gpu.repair_pending": "ecc_errors/channel_repair_pending",
    "fabric.state": "fabric/state",
    "fabric.status": "fabric/status",
}
NUMBERS = {
    "gpu.rows_remapped": "remapped_rows/remapped_row_unc",
    "gpu.power_limit": "gpu_power_readings/current_power_limit power_readings/power_limit",
    "gpu.power_limit_default": "gpu_power_readings/default_power_limit power_readings/default_power_limit",
    "gpu.clock_max": "max_clocks/sm_clock",
    "gpu.clock_application": "applications_clocks/graphics_clock",
    "gpu.clock_application_default": "default_applications_clocks/graphics_clock",
    "pcie.replays": "pci/replay_counter",
    "pcie.width": "pci/pci_gpu_link_info/link_widths/current_link_width",
    "pcie.width_max": "pci/pci_gpu_link_info/link_widths/max_link_width",
    "pcie.gen_max": "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
    "pcie.gen_device": "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen",
}
"""Of a fact to its path; a second one is that of drivers before 530."""


def _gpu(gpu: ElementTree.Element) -> Facts:
    facts: Facts = {}
    for name, path in TEXTS.items():
        text = (gpu.findtext(path) or "").strip()
        if text not in ("", "N/A", "[N/A]"):
            facts[name] = text
    for name, paths in NUMBERS.items():
        values = [number(gpu.findtext(path)) for path in paths.split()]
        present = [value for value in values if value is not None]
        if present:
            facts[name] = present[0]
    total, free = (number(gpu.findtext("fb_memory_usage/" + part)) for part in ("total", "free"))
    if total and free is not None:
        facts["gpu.memory_free"] = round(free / total, 3)
    counters = [part for part in gpu.iterfind("ecc_errors/volatile/*") if "uncorrect" in part.tag]
    counts = [number(part.text) for part in [*counters, *gpu.iterfind("ecc_errors/volatile/double_bit/total")]]
    if any(count is not None for count in counts):
        facts["gpu.ecc_uncorrected"] = sum(count or 0 for count in counts)
    facts.update(_slowdowns(gpu))
    return facts


def _slowdowns(gpu: ElementTree.Element) -> Facts:
    """Return why the clocks are lowered; drivers before 535 name the reasons otherwise."""
    for word in ("clocks_event_reason", "clocks_throttle_reason"):
        reasons = gpu.find(word + "s")
        if reasons is not None:
            active = [n for n in SLOWDOWNS if reasons.findtext(word + "_" + n) == "Active"]
            return {"gpu.slowdown": " ".join(active)}
    return {}


def parse_nvlink(status: str, errors: str) -> Facts:
    """Parse `nvidia-smi nvlink -s` and `-e`: links up and down, and errors, of each GPU."""
    facts: Facts = {}
    gpu = ""
    for line in status.splitlines() + errors.splitlines():
        head = re.match(r"GPU (\d+):", line)
        link = re.match(r"\s*Link \d+: (.*)", line)
        if head:
            gpu = head.group(1)
            for name in ("nvlink.up", "nvlink.down", "nvlink.errors"):
                facts.setdefault(name, {}).setdefault(gpu, 0)
        elif link and gpu:
            counter = LINK_ERRORS.match(link.group(1))
            if counter:
                facts["nvlink.errors"][gpu] += int(counter.group(1) or counter.group(2))
            elif "inactive" in link.group(1).lower():
                facts["nvlink.down"][gpu] += 1
            elif "GB/s" in link.group(1):
                facts["nvlink.up"][gpu] += 1
    return facts


def parse_xids(text: str) -> Facts:
    """Parse the kernel's log: the numbers of the Xids since it started."""
    numbers = re.findall(r"NVRM: Xid \([^)]{1,60}\): (\d{1,4})", text)
    return {"gpu.xids": " ".join(sorted(set(numbers), key=int))}


def parse_meminfo(text: str) -> Facts:
    """Parse /proc/meminfo, in GiB."""
    kib = {m.group(1): int(m.group(2)) for m in re.finditer(r"(?m)^(\w+):\s+(\d+)", text)}
    names = {
        "memory.total": "MemTotal",
        "memory.available": "MemAvailable",
        "memory.swap": "SwapTotal",
    }
    facts: Facts = {name: round(kib[key] / 2**20, 2) for name, key in names.items() if key in kib}
    if "HugePages_Total" in kib:
        facts["memory.hugepages"] = kib["HugePages_Total"]
    if {"SwapTotal", "SwapFree"} <= kib.keys():
        facts["memory.swapped"] = round((kib["SwapTotal"] - kib["SwapFree"]) / 2**20, 2)
    return facts


def parse_mpi_list(text: str) -> Facts:
    """Parse `srun --mpi=list`, whose words are the plugins."""
    words = set(re.findall(r"\b(?:pmix|pmi2|none|cray_shasta|openmpi)(?![a-z_])", text))
    if re.search(r"\bpmix_v\d", text):  # only versions are listed if the link without one is missing
        words.add("pmix")
    if not words:
        raise Unread("srun listed no plugin: " + (text.strip().split("\n")[0][:80] or "nothing"))
    return {"slurm.mpi": " ".join(sorted(words))}


def parse_ibstat(text: str) -> Facts:
    """Parse `ibstat`, where /sys/class/infiniband cannot be read."""
    ports: dict[str, dict[str, str]] = {}
    device, port = "", {}  # type: str, dict[str, str]
    for line in text.splitlines():
        head = re.match(r"CA '(\S+)'", line)
        part = re.match(r"\s+Port (\d+):\s*$", line)
        pair = re.match(r"\s+(State|Rate|Link layer): +(\S+)", line)
        if head:
            device = head.group(1)
        elif part:
            port = ports.setdefault(device + "." + part.group(1), {})
        elif pair:
            port[pair.group(1)] = pair.group(2)
    facts: Facts = {"ib.count": len(ports), "ib.active": 0} if ports else {}
    for name, values in ports.items():
        add_port(facts, name, values.get("State", "").upper(), values.get("Link layer", ""), number(values.get("Rate")))
    return facts


def add_port(facts: Facts, name: str, state: str, layer: str, rate: float | None) -> None:
    """Add a port: Ethernet ports without a cable are common, so only their number is compared with other nodes'."""
    if state == "ACTIVE":
        facts["ib.active"] += 1
        if rate is not None:
            facts.setdefault("ib.rate", {})[name] = rate
    if state == "ACTIVE" or layer != "Ethernet":
        facts.setdefault("ib.state", {})[name] = state


def parse_settings(text: str) -> str:
    """Return the settings of a configuration file in one line, without comments and secrets."""
    lines = [" ".join(line.split("#")[0].split()) for line in text.splitlines()]
    kept = [line for line in lines if line and not re.search(r"(?i)token|passw|secret|key", line)]
    return "; ".join(sorted(kept))


# ---- the node


class Node:
    """What can be read here. Tests give another root of the file system, and other tools."""

    def __init__(self, expected: Facts, root: str = "/", tool: Run = run) -> None:
        self.expected, self.root, self.tool = expected, root.rstrip("/"), tool
        self.facts: Facts = {}
        self.unread: dict[str, str] = {}

    def text(self, path: str) -> str:
        """Return the content of a file. Raises `Unread`."""
        try:
            with open(self.root + path, "rb") as file:
                return file.read(1 << 20).decode("utf-8", "replace").strip()
        except OSError as error:
            raise Unread(f"{path}: {error.strerror}") from None

    def paths(self, pattern: str) -> list[str]:
        """Return the paths that match, without the root."""
        return sorted(path[len(self.root) :] for path in glob.glob(self.root + pattern))

    def read(self) -> None:
        """Read all facts. One that cannot be read does not keep the next from being read."""
        for names, reader in READERS:
            try:
                self.facts.update(reader(self))
            except Unread as error:
                reason = str(error)
            except Exception as error:  # a tool that prints something else is no reason to stop
                reason = f"{type(error).__name__}: {error}"
            else:
                reason = "the node does not have it"
            for name in names.split():
                if name not in self.facts:
                    self.unread.setdefault(name, reason)


def _smi(node: Node) -> Facts:
    try:
        facts = parse_smi(node.tool("nvidia-smi", "-q", "-x"))
    except Unread as error:
        if "not found" in str(error):
            raise
        node.facts["gpu.answers"] = str(error)
        raise
    return {**facts, "gpu.answers": "yes", **_cuda(node, str(facts.get("gpu.driver", "")))}


def _cuda(node: Node, driver: str) -> Facts:
    """Compare the CUDA of this image with the driver: needs `cuda` of the configuration."""
    release = node.expected.get("cuda") or os.environ.get("CUDA_VERSION")
    if not release:
        return {}
    facts: Facts = {"cuda.image": release}
    branch = int(number(driver) or 0)
    for row in node.expected.get("cuda_drivers", []):
        if branch and str(release).split(".")[0] == str(row["cuda"]):
            newer = branch >= row["driver"]
            forward = branch in row.get("forward", ())
            state = "new enough" if newer else "forward compatibility" if forward else "too old"
            need = f"CUDA {release} needs {row['driver']} or newer"
            facts["cuda.driver"] = state if state != "too old" else f"too old: {need}"
    return facts


def _nvlink(node: Node) -> Facts:
    facts = parse_nvlink(node.tool("nvidia-smi", "nvlink", "-s"), node.tool("nvidia-smi", "nvlink", "-e"))
    names = " ".join(map(str, node.facts.get("gpu.type", {}).values()))
    if not any(facts.get("nvlink.up", {}).values()) and "SXM" not in names and "fabric.state" not in node.facts:
        facts.pop("nvlink.down", None)
        node.unread["nvlink.down"] = "no link of any GPU is up: cards without a bridge look like that, too"
    return facts


def _xids(node: Node) -> Facts:
    if "gpu.answers" not in node.facts:
        raise Unread("nvidia-smi was not found")
    return parse_xids(node.tool("dmesg"))


def _imex(node: Node) -> Facts:
    names = " ".join(map(str, node.facts.get("gpu.type", {}).values()))
    if not re.search(r"\bGB\d", names):
        raise Unread("only GPUs with the NVLink of several nodes (GB200, GB300) need it")
    return {"fabric.imex": node.tool("nvidia-imex-ctl", "-q").strip().split("\n")[-1]}


def _ports(node: Node) -> Facts:
    ports = node.paths("/sys/class/infiniband/*/ports/*")
    if not ports:
        return parse_ibstat(node.tool("ibstat"))
    facts: Facts = {"ib.count": len(ports), "ib.active": 0}
    for path in ports:
        parts = path.split("/")
        name = parts[4] + "." + parts[6]
        state = node.text(path + "/state").partition(":")[2].strip()
        layer = node.text(path + "/link_layer") if os.path.exists(node.root + path + "/link_layer") else ""
        add_port(facts, name, state, layer, number(node.text(path + "/rate")))
        try:
            counters = [path + "/counters/" + counter for counter in PORT_ERRORS]
            counts = [int(node.text(counter)) for counter in counters if os.path.exists(node.root + counter)]
        except Unread as error:  # virtual functions have the files, and refuse to read them
            node.unread["ib.errors"] = str(error)
        else:
            facts.setdefault("ib.errors", {})[name] = sum(counts)
    return facts


def _gdr(node: Node) -> Facts:
    if "ib.state" not in node.facts or "gpu.count" not in node.facts:
        raise Unread("no GPU or no port of InfiniBand was found")
    names = [line.split(" ")[0] for line in node.text("/proc/modules").splitlines()]
    peers = [name for name in ("nvidia_peermem", "nv_peer_mem") if name in names]
    return {"ib.gdr": " ".join(peers) or "no module (nvidia_peermem)"}


def _processors(node: Node) -> Facts:
    text = node.text("/proc/cpuinfo")
    models = re.findall(r"(?m)^(?:model name|CPU part)\s*:\s*(.+)$", text)
    numa = node.paths("/sys/devices/system/node/node[0-9]*")
    return {
        "cpu.model": models[0] if models else "unknown",
        "cpu.count": len(re.findall(r"(?m)^processor\s*:", text)),
        "cpu.numa_nodes": len(numa),
    }


def _numa(node: Node) -> Facts:
    return {"cpu.numa_balancing": int(node.text("/proc/sys/kernel/numa_balancing"))}


def _governor(node: Node) -> Facts:
    paths = node.paths("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    if not paths:
        raise Unread("/sys/devices/system/cpu has no cpufreq")
    return {"cpu.governor": " ".join(sorted({node.text(path) for path in paths}))}


def _idle(node: Node) -> Facts:
    states = node.paths("/sys/devices/system/cpu/cpu0/cpuidle/state[0-9]*")
    latencies = [int(node.text(state + "/latency")) for state in states if node.text(state + "/disable") == "0"]
    if not latencies:
        raise Unread("/sys/devices/system/cpu/cpu0/cpuidle has no state")
    return {"cpu.idle_latency": max(latencies)}


def _memory(node: Node) -> Facts:
    return parse_meminfo(node.text("/proc/meminfo"))


def _pages(node: Node) -> Facts:
    text = node.text("/sys/kernel/mm/transparent_hugepage/enabled")
    return {"memory.thp": re.findall(r"\[(\w+)\]", text)[0]}


def _network(node: Node) -> Facts:
    """Return MTU and speed of the interfaces of hardware that are up, by name."""
    facts: Facts = {}
    for path in node.paths("/sys/class/net/*/device"):
        interface = path.rsplit("/", 1)[0]
        if node.text(interface + "/operstate") == "up":
            name = interface.rsplit("/", 1)[1]
            facts.setdefault("net.mtu", {})[name] = int(node.text(interface + "/mtu"))
    return facts


class _Timex(ctypes.Structure):
    _fields_ = [
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long), ("esterror", ctypes.c_long), ("status", ctypes.c_int),
        ("space", ctypes.c_byte * 256),
    ]  # fmt: skip


def _clock(node: Node) -> Facts:
    """Ask the kernel whether its clock is kept in time (adjtimex(2) with modes 0 reads only)."""
    timex = _Timex()
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    if state < 0:
        raise Unread("adjtimex: " + os.strerror(ctypes.get_errno()))
    return {"clock.kept": "no" if timex.status & 0x40 else "yes"}


def _disk(node: Node) -> Facts:
    facts: Facts = {}
    for folder in ["/tmp", "/dev/shm", *node.expected.get("folders", [])]:
        try:
            stat = os.statvfs(node.root + folder)
        except OSError as error:
            node.unread["disk.free"] = f"{folder}: {error.strerror}"
            continue
        free = stat.f_bavail * stat.f_frsize / 2**30
        facts.setdefault("disk.free", {})[folder] = round(free, 1)
    return facts


def _mpi(node: Node) -> Facts:
    return parse_mpi_list(node.tool("srun", "--mpi=list"))


def _enroot(node: Node) -> Facts:
    paths = node.paths("/etc/enroot/enroot.conf") + node.paths("/etc/enroot/enroot.conf.d/*")
    if not paths:
        raise Unread("/etc/enroot/enroot.conf was not found")
    return {"container.enroot": "; ".join(parse_settings(node.text(path)) for path in paths)}


def _pyxis(node: Node) -> Facts:
    folders = [*PLUGSTACKS, os.path.dirname(os.environ.get("SLURM_CONF", ""))]
    names = [folder + name for folder in folders if folder for name in ("/plugstack.conf", "/plugstack.conf.d/*")]
    paths = sorted({path for name in names for path in node.paths(name)})
    lines = [parse_settings(node.text(path)) for path in paths]
    pyxis = [line for line in lines if "pyxis" in line]
    if not pyxis:
        raise Unread("no plugstack.conf with Pyxis was found")
    return {"container.pyxis": "; ".join(pyxis)}


def _runtime(node: Node) -> Facts:
    versions = {}
    for name in RUNTIMES:
        if shutil.which(name):
            words = "version" if name == "enroot" else "--version"
            versions[name] = node.tool(name, words).strip().split("\n")[0]
    if not versions:
        raise Unread("none of " + ", ".join(RUNTIMES) + " was found")
    return {"container.runtime": versions}


def _system(node: Node) -> Facts:
    return {"node.kernel": os.uname().release, "node.time": time.time()}


SMI = (
    "gpu.answers gpu.count gpu.driver gpu.cuda gpu.inforom cuda.driver gpu.memory_free "
    "gpu.ecc_uncorrected gpu.slowdown "
) + " ".join([*TEXTS, *NUMBERS])
READERS: tuple[tuple[str, Callable[[Node], Facts]], ...] = (
    (SMI, _smi),
    ("nvlink.up nvlink.down nvlink.errors", _nvlink),
    ("gpu.xids", _xids),
    ("fabric.imex", _imex),
    ("ib.state ib.active ib.rate ib.errors ib.count", _ports),
    ("ib.gdr", _gdr),
    ("cpu.model cpu.count cpu.numa_nodes", _processors),
    ("cpu.numa_balancing", _numa),
    ("cpu.governor", _governor),
    ("cpu.idle_latency", _idle),
    ("memory.total memory.available memory.swap memory.swapped memory.hugepages", _memory),
    ("memory.thp", _pages),
    ("net.mtu", _network),
    ("clock.kept", _clock),
    ("disk.free", _disk),
    ("slurm.mpi", _mpi),
    ("container.enroot", _enroot),
    ("container.pyxis", _pyxis),
    ("container.runtime", _runtime),
    ("node.kernel node.time", _system),
)
"""The facts that each reader tries to read, in order."""


# ---- limits


def broken(rule: Facts, value: Any, facts: Facts, expected: Facts, key: str) -> str | None:
    """Say how a value breaks a rule; None if it does not. Raises `Unread` without a limit."""
    limit = rule.get("limit")
    if rule["rule"] == "alike":  # as most objects of the node
        values = [value, *facts[rule["fact"]].values()]
        limit = max(values, key=values[1:].count)
    if "expected" in rule:
        limit = expected.get(rule["expected"])
    if "of" in rule:
        limit = facts.get(rule["of"])
        limit = limit.get(key) if isinstance(limit, dict) else limit
    if limit is None:
        raise Unread(f"no {rule.get('expected') or rule.get('of')} to compare with is known")
    kind = rule["rule"]
    if "of" in rule and kind != "is":
        limit = limit * rule.get("factor", 1)
    holds: dict[str, Callable[[], bool]] = {
        "at_least": lambda: value >= limit,
        "at_most": lambda: value <= limit,
        "is": lambda: value == limit,
        "is_not": lambda: not str(value).startswith(str(limit)),
        "contains": lambda: str(limit) in str(value).split(),
        "one_of": lambda: value in limit,
        "none_of": lambda: not set(str(value).split()) & set(limit),
        "matches": lambda: any(re.search(pattern, str(value)) for pattern in limit),
        "alike": lambda: value == limit,
    }
    good = holds[kind]()
    shown = limit if not isinstance(limit, float) else f"{limit:g}"
    words = {"is_not": "", "matches": ": another type is expected", "none_of": "", "is": f", {shown} is expected"}
    return None if good else words.get(kind, f", {kind.replace('_', ' ')} {shown} is expected")


def judge(facts: Facts, unread: dict[str, str], checks: list[Facts], expected: Facts) -> list[list[str]]:
    """Return for each check its state (`ok`, `bad`, `not checked`), the value, and the reason."""
    return [_judged(check, facts, unread, expected) for check in checks]


def _judged(check: Facts, facts: Facts, unread: dict[str, str], expected: Facts) -> list[str]:
    name = check["fact"]
    if check.get("off"):
        return ["off", "", check["off"]]
    value = facts.get(name)
    if value is None or value == {}:
        return ["not checked", "", unread.get(name, "unknown")]
    if "rule" not in check:
        return ["ok", shown(value), ""]
    objects = value if isinstance(value, dict) else {"": value}
    bad = []
    try:
        for key, part in objects.items():
            reason = broken(check, part, facts, expected, key)
            if reason is not None:
                bad.append((f"{key}: " if key else "") + f"{part}{reason}")
    except Unread as error:
        return ["not checked", shown(value), str(error)]
    return ["bad" if bad else "ok", shown(value), ", ".join(bad)]


def shown(value: Any) -> str:
    """Return a value for people: equal ones of several objects once."""
    if not isinstance(value, dict):
        return f"{value:g}" if isinstance(value, float) else str(value)
    texts = [shown(part) for part in value.values()]
    if len(set(texts)) == 1 and all(key.isdigit() for key in value):
        return texts[0]
    return ", ".join(f"{key}: {text}" for key, text in zip(value, texts))


def alike(value: Any) -> str:
    """Return a value for the comparison of nodes: of several objects the different values, without their names."""
    if isinstance(value, dict):
        return ", ".join(sorted({shown(part) for part in value.values()}))
    return shown(value)


# ---- the program


def chunks(text: str, name: str) -> list[str]:
    """Return the lines in which a text travels."""
    parts = [text[at : at + CHUNK] for at in range(0, len(text), CHUNK)]
    return [f"{MARK}\t{name}\t{at}\t{len(parts)}\t{part}" for at, part in enumerate(parts)]


def preflight(checks: list[Facts], verdicts: list[list[str]], facts: Facts) -> list[str]:
    """Return the lines before a run: errors end it, warnings and what was not checked are notes."""
    lines = []
    for check, (state, value, reason) in zip(checks, verdicts):
        text = f"{check['id']}: {reason or value}".replace("\n", " ").replace(";", ",")
        if state == "bad":
            lines.append(("bad=" if check["severity"] == "error" else "note=") + text)
        elif state == "not checked":
            lines.append("note=not checked: " + text)
        elif state == "ok" and check.get("drift") and check["severity"] == "error" and "within" not in check:
            lines.append(f"same.{check['id']}={alike(facts[check['fact']])}")
    return lines


def main(argv: list[str]) -> None:
    """Read, judge and print."""
    text = argv[1]
    if text.startswith("@"):
        with open(text[1:], encoding="utf-8") as file:
            text = file.read()
    config = json.loads(text)
    expected = {**config["expected"], "cuda_drivers": config["cuda"]}
    node = Node(expected)
    node.read()
    verdicts = judge(node.facts, node.unread, config["checks"], expected)
    if argv[2:] == ["lines"]:
        print("\n".join(preflight(config["checks"], verdicts, node.facts)), flush=True)
        return
    name = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    facts = {"facts": node.facts, "unread": node.unread, "verdicts": verdicts}
    sys.stdout.write("\n".join(chunks(json.dumps(facts), name)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv)
