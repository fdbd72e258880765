"""Run a command as root of a user namespace with the same user ids: every_capability.py COMMAND…

Apptainer asks for every capability to run the commands of a definition; root of a container or a virtual machine may
lack one, but has all in a user namespace of its own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> int:
    """Wait in the new namespaces until the parent, which has its capabilities outside, has written their ids."""
    entered, entering = os.pipe()
    mapped, mapping = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(mapping)
        os.dup2(entering, 8)
        os.dup2(mapped, 9)
        # The shell reports that it is in the namespaces, and waits for its ids.
        wait = 'echo >&8; read -r line <&9; exec 8>&- 9<&-; exec "$@"'
        os.execvp("unshare", ["unshare", "--user", "--mount", "sh", "-c", wait, "sh", *sys.argv[1:]])
    os.close(entering)
    os.read(entered, 1)
    for ids in ("uid_map", "gid_map"):
        Path(f"/proc/{child}/{ids}").write_text("0 0 65536")
    os.write(mapping, b"\n")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
