"""A private Slurm on loopback for the tests: several nodes on one host, each with eight GPUs that are not there.

Debian's packages suffice: their slurmd takes `-N NAME`, needs no systemd and no cgroups, and munged runs on a socket of
its own. Everything lies in one folder, listens on 127.0.0.1 only, and is stopped by the process ids it left there.
By hand: `python -m tests.integration.slurm.cluster FOLDER` in the repository's root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ...patience import PATIENCE_S
from .. import apt

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge", "slurmdbd", "mariadb-server")
DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "slurmdbd", "mariadbd")
MEMORY_MB = 8000
"""Memory of each CPU: enough for a mini's rank, little enough to be exceeded on purpose."""
FIRST_PORT, LAST_PORT, PORTS_PER_WORKER = 27100, 27900, 100
SEARCH = "/usr/sbin:/sbin"

# SlurmctldTimeout: srun, told that a step cannot be created yet, asks the controller again after 60 to 69 s; by default
# it does so after two minutes, which is long in the tests whose controller is away.
CONFIG = """\
ClusterName=llmbx
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin={task}
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU={each}
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
GresTypes=gpu
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
{gather}JobRequeue=1
KillWait=3
MinJobAge=3600
ReturnToService=2
SlurmctldTimeout=60
MailProg=/bin/true
PropagateResourceLimits=NONE
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0
{extra}
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] \\
  CPUs={cpus} RealMemory={memory} Gres=gpu:8
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""

CGROUPS = """\
CgroupAutomount=no
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
"""

ACCOUNTS = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={accounting}
AccountingStoragePass={folder}/munge.sock
"""

ACCOUNTING = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CommunicationParameters=NoInAddrAny
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={storage}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""

NAMED = 'hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"'


def remove_old_cgroups(nodes: int) -> None:
    """Remove what an ended cluster left of its nodes' cgroups, which Slurm names after the nodes alone.

    With a job of the same number slurmd sometimes finds the old group and cannot start the step. Groups in use stay.
    """
    for number in range(1, nodes + 1):
        group = Path(f"/sys/fs/cgroup/memory/slurm_n{number}")
        for folder in sorted((path for path in group.glob("**/") if path.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()


class Cluster:
    """A Slurm of `nodes` nodes (n1, n2 …) in `folder`."""

    def __init__(
        self,
        folder: Path,
        nodes: int = 4,
        extra: str = "",
        cpus: int = 16,
        accounts: bool = False,
        cgroups: bool = False,
        hosts: str | None = None,
        first_job: int = 1,
    ) -> None:
        """`cgroups`: the kernel limits the memory of each step, where this user may; else slurmd measures it.

        `hosts` is the pattern of the nodes' own names, where this user may give them some: of n1, `vm-{}` is `vm-n1`.
        `first_job` is the number of the first job: the ports of a job follow from its number, and clusters that run at
        the same time on one machine share the ports.
        """
        self.folder = folder
        self.hosts = hosts if os.geteuid() == 0 else None
        self.cgroups = cgroups and os.access("/sys/fs/cgroup/memory", os.W_OK)
        self.nodes = nodes
        self.extra = extra + (f"FirstJobId={first_job}\n" if first_job > 1 else "")
        self.cpus = cpus
        self.accounts = accounts
        self.port = free_ports(nodes + 3)
        self.accounting = self.port + nodes + 1

    @property
    def config(self) -> Path:
        """What `SLURM_CONF` must name."""
        return self.folder / "slurm.conf"

    def environment(self) -> dict[str, str]:
        """The variables with which commands reach this Slurm."""
        return {**os.environ, "SLURM_CONF": str(self.config), "PATH": f"{os.environ['PATH']}:{SEARCH}"}

    def call(self, *command: str, timeout: float = 60) -> str:
        """What a command prints; its error stream is shown when it fails."""
        done = subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def start(self) -> None:
        """Write the configuration, start the daemons and wait until every node is idle."""
        if self.cgroups:
            remove_old_cgroups(self.nodes)
        self._write()
        self._munge()
        if self.accounts:
            self._database()
            self._accounting()
        self.start_controller()
        for number in range(1, self.nodes + 1):
            self.start_node(f"n{number}")
        self.wait_idle()

    def start_controller(self) -> None:
        """Start slurmctld (again); jobs and nodes are found in its saved state."""
        self.call("slurmctld")

    def start_node(self, name: str) -> None:
        """Start the slurmd of one node."""
        (self.folder / "spool" / name).mkdir(parents=True, exist_ok=True)
        command = ["slurmd", "-N", name]
        if self.hosts is not None:
            names = self.folder / f"{name}.hosts"
            names.write_text(f"127.0.0.1 localhost {self.host(name)}\n")
            command = ["unshare", "--uts", "--mount", "sh", "-c", NAMED, "sh", self.host(name), str(names), *command]
        self.call(*command)

    def host(self, name: str) -> str:
        """The node's own name, which its programs print."""
        return self.hosts.format(name) if self.hosts is not None else socket.gethostname()

    def wait_idle(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until all nodes are idle."""
        deadline = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
                idle = self.call("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N", timeout=5)
                if len(set(idle.split())) == self.nodes:
                    return
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"the nodes did not become idle: {(self.folder / 'slurmctld.log').read_text()[-2000:]}"
                )
            time.sleep(0.2)

    def start_accounting(self) -> None:
        """Start slurmdbd (again) and wait until it listens."""
        self.call("slurmdbd")
        self._until(lambda: socket.create_connection(("127.0.0.1", self.accounting), timeout=1).close())

    def forget_jobs(self) -> None:
        """Have the controller forget every job, as it does with old ones; accounting remembers them."""
        last = max(
            [int(number) for number in self.call("squeue", "--states=all", "-h", "--format=%i").split()], default=0
        )
        self.stop_daemon("slurmctld.pid")
        with self.config.open("a") as config:
            config.write(f"FirstJobId={last + 100}\n")
        self.call("slurmctld", "-c")
        self.wait_idle()

    def sql(self, statement: str) -> str:
        """What the accounting database answers."""
        socket_ = f"--socket={self.folder}/database.sock"
        return self.call("mysql", "--no-defaults", f"--user={user()}", socket_, "-N", "-e", statement)

    def without_accounting(self) -> Path:
        """A configuration for clients of a Slurm that keeps no accounts."""
        path = self.folder / "no-accounts" / "slurm.conf"
        path.parent.mkdir(exist_ok=True)
        lines = self.config.read_text().splitlines()
        path.write_text("".join(f"{line}\n" for line in lines if not line.startswith("AccountingStorage")))
        return path

    def stop_daemon(self, pattern: str, number: int = signal.SIGTERM) -> None:
        """End the daemons whose pid file matches (`slurmctld.pid`, `slurmd.n2.pid`) and wait until they are gone."""
        for file in self.folder.glob(pattern):
            with contextlib.suppress(ValueError, FileNotFoundError):
                end(int(file.read_text()), number)
            file.unlink(missing_ok=True)

    def stop(self) -> None:
        """Cancel what still runs and end every daemon."""
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            self.call("scancel", "--user", user(), timeout=10)
            time.sleep(0.5)
        for pattern in ("slurmd.*.pid", "slurmctld.pid", "slurmdbd.pid", "database.pid", "munged.pid"):
            self.stop_daemon(pattern)

    def _write(self) -> None:
        self.folder.chmod(0o755)  # munged wants its clients to reach its socket
        for name in ("state", "spool", "dev"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(8):  # a GRES file must be a device
            (self.folder / "dev" / f"nvidia{number}").symlink_to("/dev/null")
        gres = f"NodeName=n[1-{self.nodes}] Name=gpu File={self.folder}/dev/nvidia[0-7]\n"
        (self.folder / "gres.conf").write_text(gres)
        text = CONFIG.format(
            folder=self.folder, port=self.port, first=self.port + 1, last=self.port + self.nodes, nodes=self.nodes,
            host=socket.gethostname().split(".")[0], user=user(), extra=self.extra, cpus=self.cpus,
            memory=self.cpus * MEMORY_MB, each=MEMORY_MB, task="task/cgroup" if self.cgroups else "task/none",
            gather="" if self.cgroups else "JobAcctGatherParams=OverMemoryKill\n",
        )  # fmt: skip
        if self.cgroups:
            (self.folder / "cgroup.conf").write_text(CGROUPS)
        if self.accounts:
            text += ACCOUNTS.format(folder=self.folder, accounting=self.accounting)
        self.config.write_text(text)

    def _database(self) -> None:
        """MariaDB on a socket and a port of loopback; whoever runs the tests is its administrator."""
        data, me = self.folder / "database", user()
        temporary = self.folder / "database-tmp"  # a server that starts deletes every temporary table in its folder
        temporary.mkdir(exist_ok=True)
        self.call(
            "mariadb-install-db", "--no-defaults", f"--user={me}", f"--datadir={data}", f"--tmpdir={temporary}",
            "--skip-test-db", "--auth-root-authentication-method=socket", f"--auth-root-socket-user={me}",
        )  # fmt: skip
        log = (self.folder / "database.log").open("w")
        subprocess.Popen(
            ["mariadbd", "--no-defaults", f"--user={me}", f"--datadir={data}", f"--socket={self.folder}/database.sock",
             f"--pid-file={self.folder}/database.pid", "--bind-address=127.0.0.1", f"--port={self.accounting + 1}",
             f"--tmpdir={temporary}", "--innodb-buffer-pool-size=64M"],
            env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        log.close()
        statements = ["create database slurm_acct_db"]
        for host in ("127.0.0.1", "localhost"):
            statements.append(f"create user slurm@'{host}' identified by 'slurm'")
            statements.append(f"grant all on slurm_acct_db.* to slurm@'{host}'")
        self._until(lambda: self.sql("; ".join(statements)))

    def _accounting(self) -> None:
        """slurmdbd, and in its books this cluster and this user."""
        config = self.folder / "slurmdbd.conf"
        config.touch(mode=0o600)
        config.write_text(
            ACCOUNTING.format(folder=self.folder, port=self.accounting, storage=self.accounting + 1, user=user())
        )
        self.start_accounting()
        for words in (("cluster", "llmbx"), ("account", "tests"), ("user", user(), "account=tests")):
            self.call("sacctmgr", "--immediate", "add", *words)

    def _until(self, works: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
        """Try again and again until it works."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                works()
                return
            except (RuntimeError, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _munge(self) -> None:
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        files = {"socket": "sock", "key-file": "key", "pid-file": "", "log-file": "log", "seed-file": "seed"}
        names = {option: f"munge.{end}" if end else "munged.pid" for option, end in files.items()}
        self.call("munged", *(f"--{option}={self.folder / name}" for option, name in names.items()))


def end(pid: int, number: int = signal.SIGTERM, grace_s: float = 10.0) -> None:
    """End one process that the tests started, and wait until it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        deadline = time.monotonic() + grace_s
        while _alive(pid):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def user() -> str:
    """Who runs the tests, and so this Slurm."""
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


def free_ports(count: int) -> int:
    """The first of `count` ports in a row that nobody listens on."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    begin = FIRST_PORT + worker * PORTS_PER_WORKER % (LAST_PORT - FIRST_PORT)  # two that look at once take two
    for first in range(begin, LAST_PORT, 20):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in range(first, first + count):
                stack.enter_context(_bound(port))
            return first
    raise RuntimeError(f"no {count} free ports in a row between {FIRST_PORT} and {LAST_PORT}")


@contextlib.contextmanager
def _bound(port: int) -> Iterator[None]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", port))
        yield


def missing() -> list[str]:
    """Which of the daemons are not installed."""
    return [name for name in DAEMONS if shutil.which(name, path=f"{os.environ['PATH']}:{SEARCH}") is None]


def install() -> str | None:
    """Install the packages where that is possible; returns why there is no Slurm here, or None when there is one."""
    if not missing():
        return None
    why = apt.install(PACKAGES)
    return f"Slurm could not be installed: {why}" if missing() else None


if __name__ == "__main__":
    why = install()
    if why:
        sys.exit(why)
    cluster = Cluster(Path(sys.argv[1]).resolve())
    cluster.folder.mkdir(parents=True)
    cluster.start()
    print(f"export SLURM_CONF={cluster.config}")
