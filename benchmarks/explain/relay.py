"""Forward packets between this network and a namespace, some later and some not at all.

    relay.py NAMESPACE DELAY_MS SHARE_LOST

Two TUN devices, lf-relay and lf-relay-n, with packets of up to 64 KB: what netem does where the kernel has it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import select
import struct
import sys
import time
from collections import deque

TUNSETIFF, TUN, WITHOUT_HEADER, MULTIPLE = 0x400454CA, 1, 0x1000, 0
CLONE_NEWNET = 0x40000000
LARGEST = 65535


def device(name: str) -> int:
    """Make a device in the namespace of this thread."""
    number = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(number, TUNSETIFF, struct.pack("16sH", name.encode(), TUN | WITHOUT_HEADER))
    return number


def main() -> None:
    """Forward until it is killed."""
    namespace, delay_s, lost = sys.argv[1], float(sys.argv[2]) / 1000, float(sys.argv[3])
    near_end = device("lf-relay")
    os.system("ip link set lf-relay mtu 60000 txqueuelen 5000")
    descriptor = os.open(f"/var/run/netns/{namespace}", os.O_RDONLY)
    ctypes.CDLL(None).setns(descriptor, CLONE_NEWNET)
    far_end = device("lf-relay-n")
    os.system("ip link set lf-relay-n mtu 60000 txqueuelen 5000")
    print("ready", flush=True)
    forward(near_end, far_end, delay_s, lost)


def forward(near_end: int, far_end: int, delay_s: float, lost: float) -> None:
    """Forward in both directions."""
    chance = random.Random(1)
    waiting: deque[tuple[float, int, bytes]] = deque()
    poll = select.poll()
    for descriptor in (near_end, far_end):
        poll.register(descriptor, select.POLLIN)
    while True:
        left = max(0.0, waiting[0][0] - time.monotonic()) * 1000 if waiting else None
        for descriptor, _ in poll.poll(left):
            packet = os.read(descriptor, LARGEST)
            if chance.random() < lost:
                continue
            waiting.append((time.monotonic() + delay_s, far_end if descriptor == near_end else near_end, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, receiver, packet = waiting.popleft()
            try:
                os.write(receiver, packet)
            except OSError:
                continue


if __name__ == "__main__":
    main()
