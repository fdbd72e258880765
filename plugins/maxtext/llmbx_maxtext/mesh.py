"""Where the devices go: MaxText's mesh, split into what crosses nodes (dcn) and what stays inside one (ici)."""

from __future__ import annotations

from llmbx.model import RunSpec, Value


class Mesh(Value, frozen=True):
    """Degrees along MaxText's axes. The product of all is the number of devices.

    `nodes` machines have `local` devices each; without GPUs the forced host devices of all machines and processes count
    as one node, since MaxText refuses dcn axes there.
    """

    nodes: int
    local: int
    dcn_data: int
    dcn_fsdp: int
    ici_data: int
    ici_fsdp: int
    ici_tensor: int
    ici_expert: int

    @property
    def devices(self) -> int:
        """All devices that the axes make use of."""
        inside = self.ici_data * self.ici_fsdp * self.ici_tensor * self.ici_expert
        return self.dcn_data * self.dcn_fsdp * inside


def mesh_of(spec: RunSpec) -> Mesh:
    """The mesh of a run. It only fits the devices when `rules.findings` has nothing to say about it.

    Inside a node lie tensor and expert parallelism, then FSDP, then data parallelism; what is left of FSDP and data
    parallelism crosses nodes. So the MaxText Llama 2 recipe has it: FSDP over all nodes, from 64 nodes on over 16 with
    the rest data parallel.
    """
    nodes = 1 if spec.gpu_type == "cpu" else spec.nodes
    local = spec.gpus // nodes
    tensor, expert, fsdp = spec.parallelism.tp, spec.parallelism.ep or 1, fsdp_degree(spec)
    data = max(1, spec.gpus // (tensor * expert * fsdp))
    ici_fsdp = min(fsdp, max(1, local // (tensor * expert)))
    ici_data = max(1, local // (tensor * expert * ici_fsdp))
    return Mesh(
        nodes=nodes,
        local=local,
        dcn_data=max(1, data // ici_data),
        dcn_fsdp=fsdp // ici_fsdp,
        ici_data=ici_data,
        ici_fsdp=ici_fsdp,
        ici_tensor=tensor,
        ici_expert=expert,
    )


def fsdp_degree(spec: RunSpec) -> int:
    """Over how many devices weights are sharded: the degree given, or with a bare switch the data-parallel group."""
    fsdp = spec.parallelism.fsdp
    if fsdp is True:
        return max(1, spec.parallelism.dp // (spec.parallelism.ep or 1))
    return max(1, int(fsdp))
