"""Short ids: unique, short, with a letter, and found by every command that takes a run."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from llmbx.config.install import Install
from llmbx.record import short_ids


def install_at(folder: Path) -> Install:
    folder.mkdir(exist_ok=True)
    return Install(root=str(folder), origin="test")


def test_ids_are_four_to_eight_characters_with_a_letter_and_unique_for_many_runs(tmp_path: Path) -> None:
    install = install_at(tmp_path)
    names = [short_ids.claim(install, f"grok1_{number}", tmp_path / "x") for number in range(3000)]
    assert len(set(names)) == 3000
    assert all(4 <= len(name) <= 8 and name.isalnum() and name.islower() and not name.isdigit() for name in names)
    assert sum(len(name) == 4 for name in names) > 2950


def test_a_taken_id_gets_longer_and_processes_at_the_same_time_get_different_ones(tmp_path: Path) -> None:
    install = install_at(tmp_path)
    with ThreadPoolExecutor(16) as pool:
        names = list(pool.map(lambda _: short_ids.claim(install, "same", tmp_path / "x"), range(16)))
    assert len(set(names)) == 16
    first = sorted(names, key=len)
    assert [len(name) for name in first[:5]] == [4, 5, 6, 7, 8] and first[3].startswith(first[0])


def test_every_id_of_a_run_ends_before_it_could_be_a_job_id() -> None:
    for seed in range(2000):
        candidates = short_ids.candidates(str(random.Random(seed).random()))
        assert not any(next(candidates).isdigit() for _ in range(6))


def test_where_no_link_can_be_created_the_id_is_the_longest(tmp_path: Path) -> None:
    install = install_at(tmp_path)
    (tmp_path / short_ids.FOLDER).write_text("a file")
    assert short_ids.claim(install, "grok1_1", tmp_path / "x") == short_ids.derived("grok1_1")
