"""What Slurm's commands print if the controller did not answer: it is away, or the network lost a message."""

from __future__ import annotations

UNANSWERED = (
    # Slurm's own errors of communication (slurm_errno.c, 20.11 to 26.05)
    "Communication connection failure",
    "Communication shutdown failure",
    "Connection forced closed by quiesce timeout",
    "Connection rejected by handler",
    "Insane message length",
    "Kernel reported delayed socket error",
    "Message receive failure",
    "Message send failure",
    "Process is shutting down and closing all communications",
    "Rate limit exceeded",
    "Socket timed out on send/recv operation",
    "Unable to contact slurm controller",
    "Unexpected message received",
    "Unexpected missing socket error",
    "Zero Bytes were transmitted or received",
    "in standby mode",
    # Errors of the socket, which Slurm prints as they are (errno(3), the texts of glibc)
    "Broken pipe",
    "Cannot assign requested address",
    "Cannot send after transport endpoint shutdown",
    "Connection refused",
    "Connection reset by peer",
    "Connection timed out",
    "Host is down",
    "Network dropped connection on reset",
    "Network is down",
    "Network is unreachable",
    "No route to host",
    "Software caused connection abort",
    "Transport endpoint is not connected",
)
"""Parts of the messages. The same request may succeed a moment later: the controller has refused nothing."""
