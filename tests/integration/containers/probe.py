"""What one rank sees, as JSON; then it ends as its first argument says: an exit code, or `kill`."""

import json
import os
import resource
import signal
import stat
import sys
import time
from pathlib import Path

LIMITS = ("RLIMIT_NOFILE", "RLIMIT_STACK", "RLIMIT_NPROC", "RLIMIT_AS", "RLIMIT_FSIZE")
ending, names, paths = sys.argv[1], sys.argv[2].split(","), json.loads(sys.argv[3])


def try_write(folder: str) -> str:
    """ "ok" when a file can be written there, else the error's name."""
    try:
        (Path(folder) / "written").write_text("x")
    except OSError as error:
        return type(error).__name__ if error.errno != 30 else "read-only"
    return "ok"


made = Path("made")
made.write_text("x")
seen = {
    "argv": sys.argv[1:],
    "env": {name: os.environ.get(name) for name in names},
    "cwd": str(Path.cwd()),
    "umask": oct(os.umask(0o022)),
    "ids": [os.getuid(), os.getgid()],
    "made": [oct(stat.S_IMODE(made.stat().st_mode)), made.stat().st_uid, made.stat().st_gid],
    "read": {name: (Path(path) / "here").read_text() for name, path in paths.items()},
    "write": {name: try_write(path) for name, path in paths.items()},
    "host network": Path("/proc/net/dev").read_text().count(":"),
    "shared memory": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
    "limits": {name: resource.getrlimit(getattr(resource, name))[0] for name in LIMITS},
}
made.write_text(json.dumps(seen))
for number in range(4):
    print(f"out {number}", flush=True)
    print(f"err {number}", file=sys.stderr, flush=True)
if ending == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if ending == "term":

    def stop(number: int, frame: object) -> None:
        """Say that the signal came, and end with a code of our own."""
        print(f"got {signal.Signals(number).name}", flush=True)
        sys.exit(9)

    def note(number: int, frame: object) -> None:
        """Say that the signal came, and go on; it may come twice, and print() cannot be interrupted by itself."""
        os.write(1, f"noted {signal.Signals(number).name}\n".encode())

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGUSR1, note)
    print("waiting", flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(1)
sys.exit(int(ending))
