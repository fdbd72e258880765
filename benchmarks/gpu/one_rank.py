"""A communicator of one rank that calls NCCL's collectives once: its own log, for the reader of NCCL traces.

Without CUDA, as a rehearsal, gloo does the same and NCCL says nothing.
"""

from __future__ import annotations

import os

SIZES = (1024, 1 << 20, 1 << 24)


def main() -> None:
    """All-reduce, all-gather, reduce-scatter and broadcast, in three sizes."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "RANK": "0", "WORLD_SIZE": "1"}
    os.environ |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,COLL,TUNING"}
    import torch
    from torch import distributed

    device = "cuda" if torch.cuda.is_available() else "cpu"
    distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    for size in SIZES:
        tensor, other = (torch.ones(size, device=device, dtype=torch.bfloat16) for _ in "ab")
        distributed.all_reduce(tensor)
        distributed.broadcast(tensor, 0)
        distributed.all_gather([other], tensor)
        if device == "cuda":
            distributed.reduce_scatter_tensor(other, tensor)
            torch.cuda.synchronize()
    distributed.destroy_process_group()
    print(
        f"torch {torch.__version__}, NCCL {'.'.join(map(str, torch.cuda.nccl.version())) if device == 'cuda' else '-'}"
    )


if __name__ == "__main__":
    main()
