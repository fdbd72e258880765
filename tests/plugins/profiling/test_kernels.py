"""Classification of kernels by name."""

from __future__ import annotations

import pytest

from llmbx_profiling.analysis import kernels

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (NCCL, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"),
        ("void at::native::vectorized_elementwise_kernel<(int)4, at::native::f<float>>(int, T2)",
         "at::native::vectorized_elementwise_kernel"),
        ("void (anonymous namespace)::softmax_forward<float, (int)8>(float *, const float *)", "softmax_forward"),
        ("void at::native::(anonymous namespace)::cunn<float>(int)", "at::native::cunn"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm>(T1::Params)",
         "cutlass::Kernel2<cutlass_80_tensorop_s16816gemm>"),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTN", "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTN"),
        ("fusion_12", "fusion_12"),
        ("(anonymous)", "(anonymous)"),
        ("", ""),
    ],
)  # fmt: skip
def test_short_names(name: str, short: str) -> None:
    assert kernels.short(name) == short


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        (NCCL, "AllReduce"),
        ("ncclKernel_ReduceScatter_RING_LL128_Sum_half(ncclWorkElem)", "ReduceScatter"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "SendRecv"),
        ("ncclSymDevKernel_AllGather_LLMC(ncclSymDevArgs)", "AllGather"),
        ("void deep_ep::internode::dispatch<false>(int4*)", "dispatch"),
        ("void two_shot_all_reduce_kernel<c10::BFloat16>()", "AllReduce"),
        ("void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>()", "Reduce"),
        ("nvshmemi_transfer_rma", None),
    ],
)
def test_communication_is_more_than_nccl(name: str, operation: str | None) -> None:
    assert kernels.is_communication(name)
    assert kernels.operation(name) == operation


@pytest.mark.parametrize(
    "name", ["void at::native::reduce_kernel<512>()", "gemm_all", "cub::DeviceReduceKernel", "scatter_add"]
)
def test_a_reduction_on_one_device_is_not_communication(name: str) -> None:
    assert not kernels.is_communication(name)
