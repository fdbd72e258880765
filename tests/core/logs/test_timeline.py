"""Who failed first: the earliest failure that is not an echo, by time and rank."""

# ruff: noqa: E501 (log lines are as long as they are)

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmbx.logs.lines import Line
from llmbx.logs.literals import Filter, required, skeleton_of
from llmbx.logs.plain import PlainParser
from llmbx.logs.signature_table import signatures
from llmbx.logs.signatures import Signatures, may_fail
from llmbx.logs.timeline import SURVIVED, failure
from llmbx.model import Event
from llmbx.model.failure import Failure

ROOT = Path(__file__).parents[3]
STEP = "step {} of the training"
"""A line that the tests count as a training step."""


def read(lines: Sequence[str], failed: bool = True) -> Failure | None:
    """The failure of a log, in which `STEP` lines are steps."""
    signatures, events, before, steps = Signatures(), [], [], 0
    for line in lines:
        steps += line.endswith("of the training")
        for event in signatures.feed(line):
            events.append(event)
            before.append(steps)
    return failure(events, [steps - count for count in before], steps > 0, failed)


def traceback(label: str, last: str) -> list[str]:
    return [
        f"{label}{text}"
        for text in ("Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "    main()", last)
    ]


def watchdog(rank: int, clock: str = "08:20:10") -> list[str]:
    """What a rank prints that waited ten minutes for another one."""
    head = f"{rank}: [rank{rank}]:[E304 {clock}.408271257 ProcessGroupNCCL.cpp:683] [Rank {rank}]"
    return [
        f"{head} Watchdog caught collective operation timeout: WorkNCCL(SeqNum=15, OpType=ALLREDUCE, Timeout(ms)=600000)",
        f"{head} Some NCCL operations have failed or timed out.",
        f"{rank}: terminate called after throwing an instance of 'c10::DistBackendError'",
        f"srun: error: n1: task {rank}: Aborted (core dumped)",
    ]


def reset(rank: int) -> list[str]:
    """What a rank prints whose peer died."""
    return [
        f"{rank}: [rank{rank}]:[W304 08:10:31.112233 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=82): Connection reset by peer"
    ]


ECHOES = (watchdog, reset)


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("first", [True, False])
def test_an_exception_is_the_cause_whatever_others_print_before_or_after_it(echo: object, first: bool) -> None:
    others = [line for rank in (0, 1, 2) for line in echo(rank)]  # type: ignore[operator]
    own = traceback("5: [rank5]: ", "ValueError: Sample 88213 has 4097 tokens")
    found = read([*own, *others] if first else [*others, *own])
    assert found is not None
    assert (found.cause, found.rank, found.infrastructure) == ("ValueError: Sample 88213 has 4097 tokens", 5, False)
    assert {line.rank for line in found.echoes} >= {0, 1, 2}


@settings(max_examples=60)
@given(
    st.integers(0, 99_999),
    st.from_regex(r"[A-Z][a-z]{3,9}(Error|Exception)", fullmatch=True),
    st.text("abc 0123", max_size=20),
    st.randoms(),
)
def test_any_exception_of_any_rank_is_found_without_a_list(
    rank: int, kind: str, text: str, order: random.Random
) -> None:
    """Other names, ranks and orders of the same failure: no signature knows them."""
    blocks = [traceback(f"{rank}: [rank{rank}]: ", f"mine.{kind}: {text}")]
    blocks += [order.choice(ECHOES)(other) for other in range(rank + 1, rank + 4)]
    order.shuffle(blocks)
    found = read([line for block in blocks for line in block])
    assert found is not None and (found.cause, found.rank) == (f"mine.{kind}: {text}".strip(), rank)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 9_999),
    st.from_regex(r"([a-z]{2,6}\.){0,2}[A-Z][A-Za-z]{2,14}", fullmatch=True),
    st.text("abcxyz ,.'0123", max_size=30).map(str.strip),
    st.sampled_from(
        ["{rank}: ", "{rank}: [rank{rank}]: ", "[rank{rank}]: ", "[default{rank}]:", "{node}: [rank{rank}]: "]
    ),
    st.from_regex(r"[a-z]{2,5}[0-9]{1,3}", fullmatch=True),
    st.integers(0, 86_399),
    st.booleans(),
    st.randoms(),
)
def test_the_same_failure_with_other_names_ranks_hosts_and_times(
    rank: int, raised: str, message: str, label: str, node: str, second: int, timed: bool, order: random.Random
) -> None:
    """No signature knows the class or the text; the others lose this rank, wait for it, and raise later."""
    last = f"{raised}: {message}" if message else raised
    stamp = (lambda at: f"2026-03-04T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}Z ") if timed else lambda at: ""
    own = traceback(stamp(second % 80_000) + label.format(rank=rank, node=node), last)
    blocks = [[*own, f"srun: error: {node}.cluster: task {rank}: Exited with exit code 1"]]
    for other in range(rank + 1, rank + 4):
        blocks.append([stamp(second % 80_000 + 600) + line for line in order.choice(ECHOES)(other)])
    if timed:
        later = f"Later{raised.rpartition('.')[2]}: {message} again"
        blocks.append(traceback(f"{stamp(second % 80_000 + 5)}{rank + 9}: ", later))
    order.shuffle(blocks)
    found = read([line for block in blocks for line in block])
    assert found is not None and (found.cause, found.rank, found.node) == (last, rank, node)


@pytest.mark.parametrize(
    "label",
    [
        "", "5: ", "[rank5]: ", "[Rank 5]: ", "[default5]:", "5: [rank5]: ", "[1,5]<stderr>:", "vm-05: ", "n1.cluster.local: ",
        "(RayTrainWorker pid=615, ip=10.72.7.6) ", "(worker1, rank=1, pid=4112, ip=10.0.0.3) ", "llama-0-x7k2j main ",
        "2026-03-04T08:01:43.604117293Z ", "2026-03-04T08:01:43.604117293Z stderr F ", "trainer-1  | ", "i.pretrain/0 ",
        "Mar  4 08:01:43 n2 train[4021]: ", "2026-03-04 08:01:43 [rank5]: ", "[1,mpirank:5,algo-2]<stderr>:", "1772611303604 ",
    ],
)  # fmt: skip
def test_a_traceback_is_read_under_any_label(label: str) -> None:
    found = read(
        [*traceback(label, "ValueError: Sample 88213 has 4097 tokens"), f"{label}INFO: closing the data loaders"]
    )
    assert found is not None and found.cause == "ValueError: Sample 88213 has 4097 tokens"
    assert found.rank == (
        5
        if "5" in label.replace("vm-05", "").replace("615", "")
        and "T08" not in label
        and "pid" not in label
        and "177" not in label
        else None
    )


def test_a_traceback_that_was_cut_is_given_up() -> None:
    """Its label may be that of another line much later, which is no exception."""
    cut = ["0: Traceback (most recent call last):", '0:   File "train.py", line 3, in <module>']
    later = [f"1: {STEP.format(number)}" for number in range(10_010)]
    assert read([*cut, *later, "0: done"]) is None
    found = read([*cut, *later[:5], "0: ValueError: no"])
    assert found is not None and found.cause == "ValueError: no"


def test_lines_wrapped_in_json_are_unwrapped() -> None:
    lines = traceback("[rank5]: ", "KeyError: 'text'")
    found = read(
        [f'{{"log":"{line}\\n","stream":"stderr"}}'.replace('File "train.py"', "File train.py") for line in lines]
    )
    assert found is not None and (found.cause, found.rank) == ("KeyError: 'text'", 5)


@pytest.mark.parametrize("place", range(len(signatures())))
def test_the_quick_filter_drops_no_line_that_a_signature_matches(place: int) -> None:
    # Some patterns take long to match at random, on a busy machine longer than hypothesis likes.
    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.from_regex(signatures()[place].pattern))
    def check(line: str) -> None:
        assert may_fail(skeleton_of(line)), line

    check()


def test_a_pattern_whose_matches_have_no_text_in_common_is_refused() -> None:
    """The filter would drop its lines, or have to let all pass."""
    with pytest.raises(ValueError, match="no text that each match contains"):
        Filter([r"error", r"no space|\d+"])


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"NET/IB.{0,40}(?:[Gg]ot completion|error)", [["NET/IB"], ["Got completion", "error", "got completion"]]),
        (r"^(?:a longer|text) \d+ (?:x+y|maybe)?(?i:CASE)(?!never)$", [["a longer ", "text "]]),
        (r"not (?:set|found).{0,9}[Tt]he (?:a|b+)", [["not found", "not set"], ["The ", "the "]]),
        (r"Xid 79(?:abc)+", [["Xid 79"], ["abc"]]),
    ],
)
def test_the_texts_of_a_pattern(pattern: str, texts: list[list[str]]) -> None:
    (clauses,) = required(pattern)
    assert [sorted(clause) for clause in clauses] == texts


@pytest.mark.parametrize(
    ("line", "kind", "rank", "node"),
    [
        ("/var/spool/slurmd/job77/slurm_script: Zeile 12:  4711 Speicherzugriffsfehler  (Speicherabzug geschrieben) python a.py", "rank_exit", None, None),
        ("./run.sh : ligne 12 :  4711 Erreur de segmentation      python train.py", "rank_exit", None, None),
        ("=>> PBS: job killed: walltime 3612 exceeded limit 3600", "timeout", None, None),
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "timeout", None, None),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "out_of_memory", None, None),
        ("412.512s: flux-shell[1]: FATAL: doom: rank 5 on host n2 failed and exit-on-error is set", "rank_exit", 5, None),
        ("x3005c0s13b0n0.hsn.cm.site: rank 5 died from signal 11 and dumped core", "rank_exit", 5, "x3005c0s13b0n0"),
        ("ERROR:  One or more process (first noticed rank 5) terminated with signal 9 (core dumped)", "rank_exit", 5, None),
        ("prterun noticed that process rank 5 with PID 4711 on node n2 exited on", "rank_exit", 5, "n2"),
        ("ERROR:composer.cli.launcher:Rank 5 crashed with exit code 1.", "rank_exit", 5, None),
        ("trainer-1 exited with code 137", "rank_exit", None, None),
        ("[rank: 5] Child process with PID 4711 terminated with code -9. Forcefully terminating all others", "rank_exit", 5, None),
        ("srun: error: n2: task 5: User defined signal 1", "rank_exit", 5, "n2"),
        ("3: Callback: Queue 0x7f5c aborting with error : HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION", "gpu_error", 3, None),
        ("Xid 79: GPU reset required before reuse", "gpu_error", None, None),
    ],
)  # fmt: skip
def test_how_schedulers_launchers_and_shells_report_an_end(
    line: str, kind: str, rank: int | None, node: str | None
) -> None:
    found = read([STEP.format(1), line, *watchdog(0)])
    assert found is not None and (found.kind, found.rank, found.node) == (kind, rank, node)


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("2026-03-04T09:09:00+01:00 7: ", "2026-03-04T08:10:00Z 5: "),
        ("Dec 31 23:59:43 n2 train[4021]: [rank7]: ", "Jan  1 00:09:43 n4 train[4021]: [rank5]: "),
        ("03/04/2026 08:10:00 [rank7]: ", "03/04/2026 08:20:00 [rank5]: "),
    ],
)
def test_times_are_compared_over_zones_and_the_turn_of_the_year(early: str, late: str) -> None:
    found = read([*traceback(late, "KeyError: 'a'"), *traceback(early, "ValueError: b")])
    assert found is not None and (found.cause, found.rank) == ("ValueError: b", 7)


def test_a_traceback_in_one_json_text_has_its_rank() -> None:
    text = "\\n".join(traceback("", "ValueError: b"))
    found = read(
        ['{"ts":"2026-03-04T08:10:09Z","level":"error","rank":3,"msg":"' + text.replace('"train.py"', "a") + '"}']
    )
    assert found is not None and (found.cause, found.rank, found.time) == ("ValueError: b", 3, "2026-03-04T08:10:09")


def test_the_rank_that_the_kernel_killed_is_the_one_that_ended_on_its_node() -> None:
    kernel = "n3 kernel: Memory cgroup out of memory: Killed process 4711 (python3) total-vm:1kB"
    ends = ["srun: error: n3: task 17: Killed", "srun: error: n1: task 2: Killed"]
    found = read([STEP.format(1), kernel, *watchdog(0), *ends])
    assert found is not None and (found.kind, found.rank, found.node) == ("out_of_memory", 17, "n3")
    broken = read([STEP.format(1), "n3 kernel: NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus.", *ends])
    assert broken is not None and (broken.rank, broken.node) == (None, "n3")


def test_a_checkpoint_that_one_rank_could_not_save() -> None:
    every = [
        line
        for rank in (0, 1)
        for line in traceback(f"{rank}: ", "torch.api.CheckpointException: CheckpointException ranks:dict_keys([6])")
    ]
    own = [f"0: {line}" for line in traceback("", "OSError: [Errno 5] Input/output error")]
    own[0] += " (RANK 6)"
    found = read([*every, *own])
    assert found is not None and (found.cause, found.rank) == ("OSError: [Errno 5] Input/output error", 6)


def test_the_exception_that_caused_another_one_is_the_reason() -> None:
    """Also if it only says how a worker ended."""
    chain = [
        *traceback("7: ", "RuntimeError: worker ended by SIGBUS"),
        "7: The above exception was the direct cause of the following exception:",
        *traceback("7: ", "RuntimeError: worker exited"),
    ]
    found = read(chain)
    assert found is not None and (found.cause, found.rank) == ("RuntimeError: worker ended by SIGBUS", 7)


def test_the_exception_of_a_thread_is_the_cause_only_if_the_run_then_fails() -> None:
    thread = ["5: Exception in thread Thread-7 (_writer):", *traceback("5: ", "OSError: no route")]
    assert read([STEP.format(1), *thread], failed=False) is None
    found = read([STEP.format(1), *thread, *watchdog(0)])
    assert found is not None and (found.cause, found.rank) == ("OSError: no route", 5)
    later = read([*thread, *(STEP.format(k) for k in range(9)), "srun: error: n2: task 6: Killed"])
    assert later is not None and later.rank == 6


def test_a_program_of_no_known_format_goes_on_after_a_failure() -> None:
    def found(*later: str) -> Failure | None:
        parser, lines = PlainParser(), [*traceback("", "OutOfResources: shared memory"), *later]
        return failure([e for line in lines for e in parser.feed(Line(line)) if isinstance(e, Event)])

    assert found(*(f"step={k}, loss=2.5" for k in range(9))) is None
    assert found(*(f" {k}%|x    | {k}/100 [00:01<02:00, 1.2it/s]" for k in range(9))) is None
    assert found(*(f"{rank}: step=7, loss=2.5" for rank in range(9))) is not None, "the same step of other ranks"


def test_an_earlier_time_wins_over_an_earlier_line() -> None:
    late, early = "2026-03-04T08:20:00Z 2: ", "2026-03-04T08:10:00Z 7: "
    found = read([*traceback(late, "KeyError: 'a'"), *traceback(early, "ValueError: b")])
    assert found is not None and (found.cause, found.rank, found.time) == ("ValueError: b", 7, "2026-03-04T08:10:00")


def test_failures_within_a_second_are_in_doubt() -> None:
    found = read(
        [
            *traceback("2026-03-04T08:10:00.1Z 5: ", "KeyError: 'a'"),
            *traceback("2026-03-04T08:10:00.4Z 7: ", "ValueError: b"),
        ]
    )
    assert found is not None and (found.rank, found.ranks) == (None, (5, 7))
    assert found.doubt == "rank 5 or 7; all within a second" and found.who == "rank 5 or 7"


def test_ranks_that_fail_alike_are_all_named_and_none_is_the_first() -> None:
    found = read([line for rank in range(8) for line in traceback(f"{rank}: ", "AssertionError: heads")])
    assert found is not None and (found.rank, found.ranks, found.who) == (
        None,
        tuple(range(8)),
        "ranks 0, 1, 2, 3 and 4 more",
    )


def test_the_node_of_a_rank_is_found_in_other_lines() -> None:
    found = read(
        [
            *traceback("5: ", "ValueError: no"),
            "srun: error: n2.cluster: task 5: Exited with exit code 1",
            "srun: error: n1: tasks 0-3: Terminated",
        ]
    )
    assert found is not None and (found.rank, found.node) == (5, "n2")


def test_torchruns_summary_names_rank_node_and_signal() -> None:
    found = read(
        [
            "W0304 08:21:01.048000 3874 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 6187 closing signal SIGTERM",
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
            "Root Cause (first observed failure):", "[0]:", "  time      : 2026-03-04_08:21:02", "  host      : n2.cluster",
            "  rank      : 7 (local_rank: 3)", "  exitcode  : -11 (pid: 6188)", "  traceback : Signal 11 (SIGSEGV) received by PID 6188",
            "============================================================",
        ]
    )  # fmt: skip
    assert found is not None and (found.rank, found.node) == (7, "n2") and "SIGSEGV" in found.cause


def test_a_full_disk_explains_an_earlier_broken_file() -> None:
    found = read(
        [
            *traceback("2: ", "RuntimeError: [enforce fail at inline_container.cc:664] . unexpected pos 704 vs 598"),
            *traceback("5: ", "OSError: [Errno 28] No space left on device"),
        ]
    )
    assert found is not None and found.cause.endswith("No space left on device")


def test_a_failing_port_ten_minutes_before_the_watchdogs_is_the_cause_and_worth_another_node() -> None:
    port = "4: [2026-03-04 08:10:08] n2:393849:395082 [0] transport/net_ib.cc:253 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: port error(10)"
    found = read([STEP.format(1), port, *watchdog(0), *watchdog(1)])
    assert found is not None and (found.rank, found.node, found.infrastructure) == (4, "n2", True)


def test_the_watchdog_names_the_lagging_rank() -> None:
    found = read(
        [*watchdog(0), "0:      [6] finished collective #1417, but didn't join collective #1418 (count from 1)"]
    )
    assert found is not None and (found.rank, found.kind) == (6, "nccl_lagging")


def test_a_barrier_names_the_rank_that_others_waited_for() -> None:
    head = "ProcessGroupGloo.cpp:67]"
    found = read(
        [
            f"2: [rank2]:[E1126 11:17:26.204319335 {head} Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.",
            f"0: [rank0]:[E1126 11:17:26.201248462 {head} [Rank 0]: Rank 1 failed to pass monitoredBarrier in 4000 ms",
        ]
    )
    assert found is not None and (found.rank, found.kind) == (1, "nccl_lagging")


def test_the_last_words_of_c_are_the_cause_and_not_that_it_terminates() -> None:
    found = read(
        [
            *reset(0),
            "3: terminate called after throwing an instance of 'gloo::EnforceNotMet'",
            "3:   what():  [enforce fail at pair.cc:456] 700 vs 12",
        ]
    )
    assert found is not None and (found.cause, found.rank) == ("[enforce fail at pair.cc:456] 700 vs 12", 3)


def test_a_worker_that_raises_is_quoted_by_its_rank_and_its_own_words_are_the_cause() -> None:
    found = read(
        [
            *traceback("4: [rank4]: ", "KeyError: Caught KeyError in DataLoader worker process 0."),
            "4: [rank4]: Original Traceback (most recent call last):",
            '4: [rank4]:   File "data.py", line 9, in __getitem__',
            "4: [rank4]: KeyError: 'text'",
        ]
    )
    assert found is not None and (found.cause, found.rank) == ("KeyError: 'text'", 4)


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("a.out: foo.c:5: main: Assertion `n == 3' failed.", None),
        ("Loss.cu:250: block: [0,0,0], thread: [0,0,0] Assertion `t >= 0 && t < n_classes` failed.", None),
        ("thread '<unnamed>' panicked at src/trainer.rs:517:53:", None),
        ("panic: runtime error: index out of range [3] with length 3", None),
        ('Exception in thread "main" java.lang.IllegalStateException: shard 3 is short', None),
        ("pdsh@head: gpu-2: ssh exited with exit code 1", None),
        (
            '  + Exception Group Traceback (most recent call last):\n  |   File "train.py", line 1, in <module>\n'
            "  | ExceptionGroup: loaders (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n"
            "    | ValueError: shard 3 is short\n    +------------------------------------",
            "ExceptionGroup: loaders (2 sub-exceptions)",
        ),
    ],
)
def test_last_words_of_other_programs(line: str, cause: str | None) -> None:
    found = read([*reset(0), *(f"3: {part}" for part in line.split("\n"))])
    assert found is not None and (found.cause, found.rank) == (cause or line, 3)


def test_what_a_daemon_says_has_its_node() -> None:
    found = read(["2: slurmstepd-n2: error: Detected 1 oom-kill event(s) in StepId=4.0.", *reset(0)])
    assert found is not None and (found.kind, found.node) == ("out_of_memory", "n2")
    assert found.cause.startswith("slurmstepd-n2: error: Detected 1 oom-kill")


def test_if_every_rank_only_waited_the_first_is_unknown() -> None:
    found = read([line for rank in range(4) for line in watchdog(rank)])
    assert found is not None and found.rank is None and found.doubt is not None and found.infrastructure is None


def test_a_rank_that_is_killed_is_the_cause_and_those_that_noticed_it_are_echoes() -> None:
    found = read(
        [
            *reset(0),
            *reset(1),
            "srun: error: n2: task 6: Killed",
            "srun: Terminating StepId=7.0",
            "srun: error: n1: tasks 0-3: Terminated",
        ]
    )
    assert found is not None and (found.rank, found.node, found.kind) == (6, "n2", "killed")


@pytest.mark.parametrize(
    ("line", "elsewhere"),
    [
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", True),
        ("RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution", True),
        ("n2 kernel: NVRM: Xid (PCI:0000:9d:00): 79, pid=9523, name=python3, GPU has fallen off the bus.", True),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", False),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", False),
        (
            "n1:800:901 [0] init.cc:1012 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000",
            False,
        ),
        ("train.py: error: unrecognized arguments: --sequence-paralell", False),
        ("slurmstepd: error: *** JOB 4711 ON n001 CANCELLED AT 2026-03-27T23:13:07 DUE TO NODE FAILURE ***", True),
    ],
)
def test_whether_to_try_elsewhere_does_not_depend_on_the_echoes(line: str, elsewhere: bool) -> None:
    for more in ([], watchdog(0), [*reset(1), *watchdog(0)]):
        found = read([STEP.format(1), line, *more])
        assert found is not None and found.infrastructure is elsewhere, more


@pytest.mark.parametrize(
    ("quoted", "elsewhere"),
    [
        ("[ERROR] URL https://registry.example/token returned error code: 401 Unauthorized", False),
        ("nvidia-container-cli: initialization error: nvml error: driver/library version mismatch", True),
    ],
)
def test_the_reason_in_a_quoted_log_is_the_cause(quoted: str, elsewhere: bool) -> None:
    head = "slurmstepd: error: pyxis: "
    found = read(
        [f"{head}failed to import docker image", f"{head}printing enroot log file:", f"{head}    [INFO] Querying registry", f"{head}    {quoted}",
         f"{head}couldn't start container", "srun: error: n2: task 4: Exited with exit code 1"]
    )  # fmt: skip
    assert found is not None and (found.cause, found.node, found.infrastructure) == (quoted, "n2", elsewhere)


def test_a_failure_that_the_training_survived_is_none_unless_nothing_else_explains_the_end() -> None:
    lines = [
        *traceback("0: ", "ModuleNotFoundError: No module named 'flash_attn_3'"),
        *(STEP.format(k) for k in range(5)),
    ]
    assert read(lines, failed=False) is None
    found = read(lines)
    assert found is not None and found.doubt == SURVIVED
    later = read([*lines, *traceback("5: ", "ValueError: no")])
    assert later is not None and later.cause == "ValueError: no" and [line.rank for line in later.unrelated] == [0]


@pytest.mark.parametrize(
    "lines",
    [
        [
            "slurmstepd: error: *** STEP 7001.0 ON n1 CANCELLED AT 2026-03-04T08:10:30 ***",
            *reset(3),
            "srun: error: n1: tasks 0-3: Terminated",
        ],
        [
            "slurmstepd: error: *** STEP 7001.0 ON n1 CANCELLED AT 2026-03-04T08:10:30 ***",
            *traceback("3: ", "RuntimeError: DataLoader worker exited"),
        ],
        [*traceback("", "KeyboardInterrupt")],
        [
            "0: Exception ignored in: <function f>",
            "7: memory (MB) | allocated: 1",
            *traceback("0: ", "ImportError: sys.meta_path is None"),
        ],
        ["n1:1:2 [0] init.cc:9 NCCL WARN Missing something harmless", "WARNING: loss scale overflow, skipping step"],
    ],
)
def test_a_cancelled_or_healthy_run_has_no_cause(lines: list[str]) -> None:
    assert read([STEP.format(1), *lines]) is None


def test_a_real_gpu_without_memory() -> None:
    """The log of Megatron-Bridge 0.6.2 on one H200, four micro-batches of Llama 3.1 8B at once."""
    found = read((ROOT / "tests/fixtures/logs/megatron-bridge-0.6-h200-oom.log").read_text().splitlines())
    assert found is not None and (found.kind, found.rank, found.infrastructure) == ("out_of_memory", 0, False)
    assert "Tried to allocate 15.66 GiB" in found.cause
