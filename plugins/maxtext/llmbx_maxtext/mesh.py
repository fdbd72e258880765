"""MaxText's device mesh, split into axes between nodes (dcn) and axes inside a node (ici)."""

from __future__ import annotations

from llmbx.api import RunSpec, Value


class Mesh(Value, frozen=True):
    """The degrees along MaxText's axes. Their product is the number of devices.

    There are `nodes` machines with `local` devices each. Without GPUs, the forced host devices of all machines and
    processes count as one node, because MaxText rejects dcn axes there.
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
        """The number of devices that the axes use."""
        inside = self.ici_data * self.ici_fsdp * self.ici_tensor * self.ici_expert
        return self.dcn_data * self.dcn_fsdp * inside


def mesh_of(spec: RunSpec) -> Mesh:
    """Return the mesh of a run. It uses all devices only if `rules.findings` returns no finding about it.

    The axes inside a node are filled with tensor and expert parallelism, then FSDP, then data parallelism; the rest of
    FSDP and data parallelism is between nodes. This is the layout of the MaxText Llama 2 recipe: FSDP over all nodes,
    and from 64 nodes on over 16 nodes with data parallelism for the rest.
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
    """Return the number of devices over which the weights are sharded.

    This is the value of `fsdp`, or the size of the data-parallel group if `fsdp` is true.
    """
    fsdp = spec.parallelism.fsdp
    if fsdp is True:
        return max(1, spec.parallelism.dp // (spec.parallelism.ep or 1))
    return max(1, int(fsdp))
