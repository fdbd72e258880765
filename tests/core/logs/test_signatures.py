"""Classification of failure messages, as reported by users, and of harmless lines."""

# ruff: noqa: E501 (log lines are as long as they are)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.logs.signatures import MAX_EVENTS, Signatures
from llmbx.model import Event


def read(*lines: str) -> list[Event]:
    signatures = Signatures()
    return [event for line in lines for event in signatures.feed(line)]


@pytest.mark.parametrize(
    ("line", "kind", "rank", "facts"),
    [
        ("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "out_of_memory", 3, {"where": "gpu"}),
        ("[5] transport.cc:1 NCCL WARN Cuda failure 2 'out of memory'", "out_of_memory", None, {"where": "gpu"}),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12 bytes", "out_of_memory", None, {"where": "gpu"}),
        ("RuntimeError: [enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you tried",
         "out_of_memory", None, {"where": "host"}),
        ("MemoryError", "out_of_memory", None, {"where": "host"}),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "out_of_memory", None, {"where": "host"}),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0.", "out_of_memory", None, {"where": "host"}),
        ("srun: error: n001: task 3: Out Of Memory", "out_of_memory", 3, {"where": "host"}),
        ("Killed", "killed", None, {}),
        ("run.sh: line 12:  4711 Killed                  python train.py", "killed", None, {}),
        ("srun: error: n001: task 7: Killed", "killed", 7, {}),
        ("traceback : Signal 9 (SIGKILL) received by PID 4711", "killed", None, {}),
        ("srun: error: n001: task 7: Exited with exit code 1", "rank_exit", 7, {"exit_code": 1}),
        ("E1121 api.py:882] failed (exitcode: -6) local_rank: 2 (pid: 4711) of binary: python", "rank_exit", None, {"exit_code": -6}),
        ("n1:12:34 [0] misc/socket.cc:9 NCCL WARN socketPollConnect: connect to 10.0.0.1<1> timed out", "network_error", None, {}),
        ("n1: NCCL WARN NET/IB: Got completion from peer 10.0.0.2 with status=12 opcode=0 vendor err 129 hca mlx5_15",
         "network_error", None, {"device": "mlx5_15"}),
        ("n1:1:2 [0] ibvwrap.cc:9 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", "network_error", None, {}),
        ("OPAL ERROR: Unreachable in file pmix3x_client.c at line 111", "network_error", None, {}),
        ("DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (n1, 29500).",
         "network_error", None, {}),
        ("RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:1234", "peer_lost", None, {}),
        ("ncclSystemError: System call (e.g. socket, malloc) or external library call failed", "nccl_error", None, {}),
        ("[rank0]:[E327] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)", "nccl_error", 0, {}),
        ("n1:12:34 [0] init.cc:9 NCCL WARN Missing something harmless", "nccl_warning", None, {}),
        ("OSError: You are trying to access a gated repo.", "gated", None, {}),
        ("OSError: We couldn't connect to the hub, and couldn't find them in the cached files.", "cache_missing", None, {}),
        ("huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the file", "cache_missing", None, {}),
        ("ImportError: cannot import name 'a' from 'b'", "import_error", None, {}),
        ("ModuleNotFoundError: No module named 'x'", "import_error", None, {}),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "gpu_error", None, {}),
        ("OSError: [Errno 28] No space left on device", "disk_full", None, {}),
        ("OSError: [Errno 98] Address already in use", "port_in_use", None, {}),
        ("slurmstepd: error: hook: mkdir: cannot create directory '/home/u/.cache': Permission denied", "file_error", None, {}),
        ("Fatal Python error: Segmentation fault", "segfault", None, {}),
        ("slurmstepd: error: *** STEP 4711.0 ON n001 CANCELLED AT 2026-03-27T23:13:07 DUE TO TIME LIMIT ***", "timeout", None, {}),
        ("slurmstepd: error: *** JOB 4711 ON n001 CANCELLED AT 2026-03-27T23:13:07 DUE TO PREEMPTION ***", "preempted", None, {}),
        ("slurmstepd: error: *** JOB 4711 ON n001 CANCELLED AT 2026-03-27T23:13:07 DUE TO NODE FAILURE ***", "node_fail", None, {}),
        ("slurmstepd: error: *** STEP 4711.0 ON n001 CANCELLED AT 2026-03-27T23:13:07 ***", "cancelled", None, {}),
    ],
)  # fmt: skip
def test_a_failure_is_recognized_by_its_line(line: str, kind: str, rank: int | None, facts: dict[str, object]) -> None:
    (event,) = read(line)
    assert (event.kind, event.rank, event.facts) == (kind, rank, facts)
    assert event.fatal == (kind != "nccl_warning")
    assert event.text in line


@pytest.mark.parametrize(
    "line",
    [
        "frame #2: c10::DistNetworkError::DistNetworkError(c10::SourceLocation) + 0x72 (0x7fce in libc10.so)",
        "node1:4711:4799 [3] NCCL INFO AllReduce: opCount 1f count 16777216",
        "WARNING: to avoid out of memory errors set expandable segments",
        "error_handling: strict",
        "loss error: 0.3",
        "kill_on_bad_exit: True",
        "restarts are killed by policy",
        "checkpoint_timeout: 600",
        "CUDA_VISIBLE_DEVICES=0  memory allocated 12",
    ],
)
def test_a_harmless_line_is_no_event(line: str) -> None:
    assert read(line) == []


def test_a_tracebacks_last_line_is_the_event() -> None:
    (event,) = read(
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "train.py", line 3, in <module>',
        "[rank1]:     main()",
        "rank 0 goes on here",
        "[rank1]: ValueError: heads must be divisible by 3",
        "[rank1]: not part of it",
    )
    assert (event.kind, event.rank, event.fatal) == ("exception", 1, True)
    assert event.text == "ValueError: heads must be divisible by 3"
    assert event.facts == {"exception": "ValueError"}


def test_tracebacks_of_two_ranks_do_not_mix() -> None:
    events = read(
        "0: Traceback (most recent call last):",
        "1: Traceback (most recent call last):",
        '0:   File "a.py", line 1',
        '1:   File "b.py", line 1',
        "1: KeyError: 'b'",
        "0: ImportError: no a",
    )
    assert [(e.rank, e.kind, e.text) for e in events] == [
        (1, "exception", "KeyError: 'b'"),
        (0, "import_error", "ImportError: no a"),
    ]


def test_each_exception_of_a_chain_is_an_event() -> None:
    events = read(
        "Traceback (most recent call last):", '  File "a.py"', "KeyError: 1", "",
        "During handling of the above exception, another exception occurred:", "",
        "Traceback (most recent call last):", '  File "a.py"', "torch.OutOfMemoryError: CUDA out of memory.",
    )  # fmt: skip
    assert [e.kind for e in events] == ["exception", "out_of_memory"]


def test_harmless_tracebacks_and_an_interrupt() -> None:
    assert (
        read("Exception ignored in: <function f>", "Traceback (most recent call last):", '  File "a"', "TypeError: x")
        == []
    )
    assert read("--- Logging error ---", "Traceback (most recent call last):", '  File "a"', "TypeError: x") == []
    assert [e.kind for e in read("Traceback (most recent call last):", '  File "a"', "KeyboardInterrupt")] == [
        "interrupted"
    ]


def test_failures_after_the_end_are_marked() -> None:
    signatures = Signatures()
    signatures.finished()
    assert signatures.feed("Segmentation fault (core dumped)")[0].facts == {"after": "finished"}


def test_a_thousand_ranks_do_not_make_a_thousand_events() -> None:
    events = read(*(f"{k}: RuntimeError: CUDA out of memory." for k in range(1000)), "Killed")
    assert len([e for e in events if e.kind == "out_of_memory"]) == MAX_EVENTS
    assert events[-1].kind == "killed"


def test_the_text_is_bounded() -> None:
    assert len(read("RuntimeError: CUDA error: " + "x" * 10_000)[0].text) == 500


@given(
    st.lists(
        st.one_of(st.text(max_size=60), st.sampled_from(["Traceback (most recent call last):", "Killed", "0: Error"]))
    )
)
def test_any_text_is_read(lines: list[str]) -> None:
    assert all(event.kind and len(event.text) <= 500 for event in read(*lines))


@pytest.mark.parametrize(
    ("line", "end"),
    [
        ("/long/path/run.sh: line 260: 10681 Segmentation fault      /bin/sh rank.sh", "Segmentation fault"),
        ("3: job.sh: Zeile 3:  4711 Abgebrochen   (Speicherabzug geschrieben) python", "Abgebrochen"),
    ],
)
def test_the_report_of_a_shell_is_quoted_without_the_path_of_its_script(line: str, end: str) -> None:
    (event,) = Signatures().feed(line)
    assert event.text == end
