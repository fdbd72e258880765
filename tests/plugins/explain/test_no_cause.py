"""Of a healthy log, or one of a job that its user cancelled, no cause is named, whatever noise it has."""

# ruff: noqa: E501 (log lines are as long as they are)

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from llmbx.api.verbs import load_plugins
from llmbx_parse.find import find_logs
from llmbx_parse.rows import parse_logs

TOTAL = 30
"""The number of steps of each log."""


def _traceback(last: str, *frames: str) -> str:
    return "\n".join(["Traceback (most recent call last):", *(f"  {frame}" for frame in frames or ('File "/w/a.py", line 3, in f', "  g()")), last])  # fmt: skip


def _bridge(k: int) -> str:
    return f" [2026-03-04 08:{k:02}:25] iteration {k + 1:8d}/{TOTAL:8d} | consumed samples: {128 * (k + 1):12d} | elapsed time per iteration (ms): {5000 + k}.5 | throughput per GPU (TFLOP/s/GPU): 400.1 | learning rate: 1.0E-05 | global batch size:   128 | lm loss: {11.85 - k / 50:.6E} | loss scale: 1.0 | grad norm: 2.870 | number of skipped iterations:   0 | number of nan iterations:   0 |"


STEPS: dict[str, Callable[[int], str]] = {
    "Megatron-Bridge": _bridge,
    "Megatron-LM": lambda k: _bridge(k).replace(" throughput per GPU (TFLOP/s/GPU): 400.1 |", ""),
    "Megatron-DeepSpeed": lambda k: f"iteration {k + 1:8d}/{TOTAL:8d} | consumed samples: {128 * (k + 1):12d} | consumed tokens: {4194304 * (k + 1):12d} | elapsed time per iteration (s): 5.{k:02} | learning rate: 6.0E-05 | global batch size:  2048 | lm loss: {11.85 - k / 50:.6E} | loss scale: 1.0 | grad norm: 0.203 | samples per second: 410.034 | tokens per gpu per second (tgs): 8008.475 | TFLOPs: 400.42 |",
    "NeMo 2": lambda k: f"Training epoch 0, iteration {k}/{TOTAL - 1} | lr: 1.469e-05 | global_batch_size: 128 | global_step: {k} | reduced_train_loss: {11.85 - k / 50:.4g} | train_step_timing in s: 5.0{k:02} | consumed_samples: {128 * (k + 1)}",
    "NeMo 1": lambda k: f"Epoch 0: :  {k}%|          | {k + 1}/{TOTAL} [00:{k:02}<01:00, reduced_train_loss={11.85 - k / 50:.3f}, global_step={k}.000, consumed_samples={128 * k}.0, train_step_timing in s=5.{k:02}]",
    "torchtitan": lambda k: f"[rank0]:[titan] 2026-05-13 08:{k:02}:25,508 - root - INFO - step: {k + 1:2}  loss: {11.85 - k / 50:.5f}  grad_norm:  1.2345  memory: 66.91GiB(37.51%)  tps: 8,000  tflops: 400.02  mfu: 39.73%",
    "MaxText": lambda k: f"I0304 08:{k:02}:25.853725 140349491260288 metric_logger.py:265] completed step: {k}, seconds: 5.{k:02}, TFLOP/s/device: 400.0, Tokens/s/device: 1000.000, total_weights: 524288, loss: {11.85 - k / 50:.3f}",
    "a trainer's rows": lambda k: f"{{'loss': {11.85 - k / 50:.4f}, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': {k / 100:.2f}}}",
    "a program's own": lambda k: f"2026-03-04 08:{k:02}:25 INFO train: step {k + 1} of {TOTAL}: loss {11.85 - k / 50:.4f}, 5.{k:02} s",
    "DeepSpeed": lambda k: f"[2026-03-04 08:{k:02}:25,123] [INFO] [logging.py:96:log_dist] [Rank 0] step={10 * (k + 1)}, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]",
}  # fmt: skip
"""The line of a step, from 0, in each format; the last three are of no format that llmbx knows."""

BEFORE = {
    "a package that is not there": "Failed to import apex, using the fallback\n" + _traceback("ModuleNotFoundError: No module named 'apex'"),
    "an import that may fail": "WARNING:megatron.core.utils:could not import transformer_engine.debug\nImportError: cannot import name 'debug_api' from 'transformer_engine' (unknown location)",
    "a download that is tried again": "WARNING:urllib3.connectionpool:Retrying (Retry(total=4, connect=4)) after connection broken by 'ConnectTimeoutError(<urllib3.connection object>, 'Connection to huggingface.co timed out.')': /api/models\nError while downloading from https://cdn-lfs.hf.co/x: HTTPSConnectionPool(host='cdn-lfs.hf.co', port=443): Read timed out.\nTrying to resume download...",
    "printed data": "sample 0 of the dataset:\nQ: what does the shell print?\nKilled\nQ: and Python?\n" + _traceback("ValueError: invalid literal for int() with base 10: 'x'"),
    "an autotuner": "W0304 08:00:01.000000 4711 torch/_inductor/select_algorithm.py:1820] Runtime error during autotuning:\nE0304 08:00:01.100000 4711 select_algorithm.py:2100] " + _traceback("triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 294912, Hardware limit: 232448. Reducing block sizes or `num_stages` may help.") + "\nAUTOTUNE mm(4096x4096, 4096x4096)",
    "XLA's allocator": "W0304 08:00:01.000000 4711 bfc_allocator.cc:306] Allocator (GPU_0_bfc) ran out of memory trying to allocate 16.00GiB with freed_by_count=0. The caller indicates that this is not a failure, but this may mean that there could be performance gains if more memory were available.",
    "plugins of TensorFlow": "E0000 00:00:1772611303.604117 4711 cuda_dnn.cc:8579] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered",
    "sockets without IPv6": "[W304 08:00:01.000000000 socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29500 (errno: 97 - Address family not supported by protocol).\n[W304 08:00:01.100000000 socket.cpp:767] [c10d] The client socket cannot be initialized to connect to [n1]:29500 (errno: 97 - Address family not supported by protocol).",
    "sockets that connect later": "[W304 08:00:01.100000000 socket.cpp:697] [c10d] The client socket has failed to connect to [n1]:29500 (errno: 111 - Connection refused). Retrying.\nn1:1:2 [0] NCCL INFO Call to connect returned Connection refused, retrying",
    "NCCL's warnings": "n1:1:2 [0] misc/ibvwrap.cc:130 NCCL WARN Failed to open libibverbs.so[.1]\nn1:1:2 [0] NCCL INFO NET/IB : No device found.\nn1:1:2 [0] graph/xml.cc:1 NCCL WARN Could not find real path of /sys/class/pci_bus/0000:00/../../0000:00:00.0",
    "arguments": "  distributed_timeout_minutes ..................... 10\n  error_injection_rate ............................ 0\n  error_injection_type ............................ transient_error\n  exit_on_missing_checkpoint ...................... False\n  exit_signal ..................................... 15\n  exit_signal_handler ............................. False\n  inprocess_soft_timeout .......................... 60\n  kill_signal ..................................... SIGKILL\n  rerun_mode ...................................... validate_results",
    "NCCL's variables": "TORCH_NCCL_ASYNC_ERROR_HANDLING=1\nTORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=600\nSLURM_KILL_BAD_EXIT=1\nexport NCCL_IB_TIMEOUT=22",
    "a shell": "bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)\n/usr/bin/bash: /opt/conda/lib/libtinfo.so.6: no version information available (required by bash)\n/var/spool/slurmd/job77/slurm_script: line 9: module: command not found",
    "Slurm": "srun: job 77 queued and waiting for resources\nsrun: job 77 has been allocated resources\nslurmstepd: error: couldn't chdir to `/home/u/w': No such file or directory: going to /tmp instead\nslurmstepd: error: Unable to create TMPDIR [/scratch/77]: Permission denied\nslurmstepd: error: Setting TMPDIR to /tmp\nsrun: Job 77 step creation temporarily disabled, retrying (Requested nodes are busy)",
    "containers": "pyxis: importing docker image: nvcr.io/nvidia/nemo:26.04\nenroot-mount: [WARN] Kernel module nvidia_uvm is not loaded. Make sure the NVIDIA device driver is installed and loaded.\nNOTE: The SHMEM allocation limit is set to the default of 64MB.  This may be\n   insufficient for PyTorch.",
    "Open MPI": "WARNING: There was an error initializing an OpenFabrics device.\n[n1:12345] 3 more processes have sent help message help-mpi-btl-openib.txt / error in device init\n[n1:12345] Set MCA parameter \"orte_base_help_aggregate\" to 0 to see all help / error messages",
    "torchrun": "W0304 08:00:01.048000 3874 torch/distributed/run.py:766] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded, please further tune the variable for optimal performance in your application as needed.",
    "no checkpoint": "WARNING: could not find the metadata file /ckpt/latest_checkpointed_iteration.txt\n    will not load any checkpoints and will start from random",
}  # fmt: skip
"""What is printed before the first step."""

INSIDE = {
    "deprecated": "/w/a.py:12: FutureWarning: `torch.cuda.amp.custom_fwd(args...)` is deprecated. It will raise an error in 2.9.\n  @custom_fwd",
    "data workers": "/opt/torch/utils/data/dataloader.py:560: UserWarning: This DataLoader will create 8 worker processes in total. lower the worker number to avoid potential slowness/freeze if necessary.",
    "a tracker that is not reached": "wandb: Network error (ReadTimeout), entering retry loop.\nwandb: ERROR Error while calling W&B API: Internal Server Error (<Response [500]>)",
    "a handled exception": "evaluation skipped: \n" + _traceback("TimeoutError: [Errno 110] Connection timed out") + "\ngoing on without it",
    "a full queue": "ERROR metrics: could not send 12 points: HTTP 503, will retry in 30 s",
    "logging that fails": "--- Logging error ---\n" + _traceback("OSError: [Errno 28] No space left on device") + "\nCall stack:",
    "a skipped batch": "WARNING: loss scale overflow, skipping step\nWARNING: rank 0 found a sample without tokens: error 3, skipped",
    "a connection that is kept": "n1:1:2 [0] NCCL INFO [Service thread] Connection closed by localRank 1\n[rank0]:[W304 08:10:31.112233 ProcessGroupWrapper.cpp:12] Warning: the heartbeat monitor is slow",
    "generated text": "sample: 'The process was Killed by signal: SIGKILL. RuntimeError: CUDA out of memory.'\nKilled\n",
    "a profiler": "Generating '/tmp/nsys-report-1a2b.qdstrm'\nThe target application terminated. One or more process it created re-parented.\nWaiting for termination of re-parented processes.",
    "a checkpoint": "saving checkpoint at iteration 20 to /ckpt in torch_dist format\nWARNING:torch.distributed.checkpoint: previous async save is not finished, waiting (timeout 600 s)",
    "a warning of the kernel": "n1 kernel: NVRM: Xid (PCI:0000:9d:00): 154, pid='<unknown>', name=<unknown>, GPU recovery action changed from 0x0 (None) to 0x0 (None)",
}  # fmt: skip
"""What is printed between steps."""

AFTER = {
    "the resource tracker": "Exception ignored in: <function ResourceTracker.__del__ at 0x7f2a>\n" + _traceback("ChildProcessError: [Errno 10] No child processes", 'File "/usr/lib/python3.12/multiprocessing/resource_tracker.py", line 84, in __del__'),
    "the tracker's process": _traceback("KeyError: '/psm_3f2b'", 'File "/usr/lib/python3.12/multiprocessing/resource_tracker.py", line 239, in main', "  cache[rtype].remove(name)"),
    "leaks": "/usr/lib/python3.12/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 6 leaked semaphore objects to clean up at shutdown",
    "finalizers": _traceback("OSError: [Errno 39] Directory not empty: 'pymp-a'", 'File "/usr/lib/python3.12/multiprocessing/util.py", line 303, in _run_finalizers'),
    "no destroy": "[rank0]:[W304 08:50:31.112233 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.",
    "a thread at the end": "Exception in thread Thread-7 (_monitor):\n" + _traceback("EOFError", 'File "/usr/lib/python3.12/threading.py", line 1075, in _bootstrap_inner', 'File "/opt/tb/event_file_writer.py", line 244, in _run'),
    "tracker": "wandb: \nwandb: 🚀 View run at: https://wandb.ai/u/p/runs/1\nwandb: Find logs at: ./wandb/run-1/logs",
    "usage": "real\t12m3.1s\nMaximum resident set size (kbytes): 1200\nExit status: 0",
}  # fmt: skip
"""What is printed after the last step."""

CANCELLED = {
    "scancel": "slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-03-04T08:50:30 ***\nsrun: Job step aborted: Waiting up to 32 seconds for job step to finish.\nsrun: error: n1: tasks 0-7: Terminated\nsrun: error: n2: task 9: Killed",
    "scancel of the job": "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-03-04T08:50:30 ***\n3: [rank3]:[W304 08:50:31.112233 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=82): Connection reset by peer\nsrun: error: n1: tasks 0-3: Terminated",
    "scancel with torchrun": "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-03-04T08:50:30 ***\nW0304 08:50:31.048000 3874 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers\nW0304 08:50:31.148000 3874 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 6187 closing signal SIGTERM\n" + _traceback("torch.distributed.elastic.multiprocessing.api.SignalException: Process 3874 got signal: 15"),
    "the user's key": "^C" + _traceback("KeyboardInterrupt"),
    "the user's key under srun": "^Csrun: interrupt (one more within 1 sec to abort)\nsrun: StepId=77.0 tasks 0-7: running\n^Csrun: sending Ctrl-C to StepId=77.0\nsrun: forcing job termination\n3: " + _traceback("KeyboardInterrupt").replace("\n", "\n3: ") + "\nsrun: error: n1: tasks 0-7: Killed",
    "data workers of a cancelled job": "slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-03-04T08:50:30 ***\n" + _traceback("RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly"),
}  # fmt: skip
"""What is printed if the user ends the job, before its last step."""

LABELS = ("", "0: ", "[rank0]: ", "[default0]:", "2026-03-04T08:01:43.604117293Z ", "n001: ", "trainer-1  | ", "llama-0-x7k2j main ")  # fmt: skip


def _log(seed: int) -> tuple[str, str]:
    """A log by its number, and what it has."""
    choice = random.Random(seed)
    name = [*STEPS][seed % len(STEPS)]
    label = choice.choice(LABELS) if name not in ("torchtitan", "NeMo 1") else ""
    before, inside = choice.sample(sorted(BEFORE), 4), choice.sample(sorted(INSIDE), 3)
    cancelled = seed % 3 == 2
    end = [choice.choice(sorted(CANCELLED))] if cancelled else choice.sample(sorted(AFTER), 2)
    blocks = [BEFORE[each] for each in before]
    places = sorted(choice.sample(range(3, TOTAL - 9), 3))
    for k in range(TOTAL - 4 if cancelled else TOTAL):
        blocks.append(STEPS[name](k))
        blocks += [INSIDE[inside[places.index(k)]]] if k in places else []
    head = _labelled(blocks, label)
    tail = "\n".join((CANCELLED if cancelled else AFTER)[each] for each in end)
    return head + tail + "\n", f"{name}, label {label!r}: {', '.join((*before, *inside, *end))}"


def _labelled(blocks: Sequence[str], label: str) -> str:
    return "".join(f"{label}{line}\n" for block in blocks for line in block.split("\n"))


@pytest.fixture(scope="module")
def causes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """The cause that `llmbx parse` names for each of the logs."""
    plugins, folder = load_plugins(), tmp_path_factory.mktemp("logs")
    found = {}
    for seed in range(150):
        text, what = _log(seed)
        path = folder / f"{seed}.log"
        path.write_text(text)
        (row,) = parse_logs(find_logs([path]), plugins.log_formats(), plugins)
        found[f"{seed} {what}"] = row.cause
    return found


def test_of_healthy_and_cancelled_logs_no_cause_is_named(causes: dict[str, str | None]) -> None:
    assert len(causes) >= 100
    assert not {what: cause for what, cause in causes.items() if cause is not None}
