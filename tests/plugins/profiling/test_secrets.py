"""Secrets are removed from profiled programs, and profiles that contain one are detected."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from llmbx.run_files import RunFolder
from llmbx.secrets import is_secret
from llmbx_profiling.analysis.database import open_profile
from llmbx_profiling.analysis.secret_scan import secrets_in as exported_secrets
from llmbx_profiling.collect import SECRETS_SUFFIX, mark_secrets, secrets_in
from llmbx_profiling.nsys_wrap import no_secrets_script

from .exports import Export

DUMP = "import json, os; print(json.dumps(dict(os.environ)))"
NOISE = ("PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE")

PLAIN = {"PATH": os.environ["PATH"], "MONKEY": "1", "TOKENIZERS_PARALLELISM": "False", "name": "kept", "what": "a b\nc"}
SECRET = {
    "HF_TOKEN": 'hf_it\'s a "$HOME" `id` \\ value',
    "NGC_API_KEY": "two\nlines\nPATH=not a variable",
    "wandb_api_key": "lower case",
    "AWS_SECRET_ACCESS_KEY": "-n",
    "DB_PASSWORD": "",
    "GOOGLE_APPLICATION_CREDENTIALS": "/a b/c",
    "MY_TOKENS": "é",
}
SHELLS = [shell for shell in ("dash", "bash") if any((Path(p) / shell).exists() for p in os.environ["PATH"].split(":"))]


@pytest.fixture
def script(tmp_path: Path) -> str:
    """The script that removes secrets from a profiled rank."""
    path = tmp_path / "no-secrets.sh"
    path.write_bytes(no_secrets_script())
    return str(path)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_profiled_program_starts_without_secrets(shell: str, script: str) -> None:
    argv = [shell, script, sys.executable, "-c", DUMP]
    done = subprocess.run(argv, env={**PLAIN, **SECRET}, capture_output=True, text=True, check=True)
    assert {name: value for name, value in json.loads(done.stdout).items() if name not in NOISE} == PLAIN


@pytest.mark.parametrize("shell", SHELLS)
def test_arguments_and_exit_code_pass(shell: str, script: str) -> None:
    argv = [shell, script, sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(7)", "a b", "", "$x"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("['a b', '', '$x']\n", 7)


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "TOKEN", "A_KEY_B", "API_KEYS", "APIKEY", "X_APIKEYS", "SECRET_X", "SECRETS", "PASSWORDS", "PASSWD_1",
     "CREDENTIAL", "CREDENTIALS_FILE", "MONKEY", "TOKENIZER", "KEYRING", "PASSWORDLESS", "X_TOKENS_Y", "SECRETLY",
     "PGPASSWORD", "HFTOKEN", "GITHUB_TOKEN2", "GH_PAT", "PATTERN", "MYSQL_PWD", "tokens_per_s", "MAX_NUM_TOKENS_B",
     "TOKENIZER_TOKEN", "MAX_NUM_TOKENS", "APPTAINER_PWD", "DOCKER_AUTH_CONFIG", "SSH_AUTH_SOCK", "NCCL_IB_PKEY"],
)  # fmt: skip
def test_the_script_agrees_with_is_secret(name: str, script: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'sh "{script}" env'],
        env={"PATH": PLAIN["PATH"], name: "x"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (f"{name}=x" not in done.stdout.splitlines()) == is_secret(name)


def test_a_planted_token_is_found_and_the_file_marked(tmp_path: Path) -> None:
    profile = tmp_path / "p.nsys-rep"
    profile.write_bytes(b"\0" * 5_000 + b"printed: hf_planted_token_1234\0HF_HOME=/data/cache")
    environ = {
        "HF_TOKEN": "hf_planted_token_1234",
        "NGC_API_KEY": "another-secret",
        "A_KEY": "print",
        "HF_HOME": "/data/cache",
    }
    file = RunFolder(path=tmp_path).file(profile.name)
    assert secrets_in(file, environ) == ("HF_TOKEN",)
    finding = mark_secrets(file, ("HF_TOKEN",))
    assert finding.warning and "p.nsys-rep contains HF_TOKEN" in finding.problem
    assert (tmp_path / f"p.nsys-rep{SECRETS_SUFFIX}").read_text() == "This profile holds the values of: HF_TOKEN\n"
    assert stat.S_IMODE(profile.stat().st_mode) == 0o600


def test_a_clean_or_empty_profile_holds_none(tmp_path: Path) -> None:
    (tmp_path / "p.nsys-rep").write_bytes(b"HF_TOKEN\0clean")
    (tmp_path / "empty.nsys-rep").touch()
    for name in ("p.nsys-rep", "empty.nsys-rep"):
        assert secrets_in(RunFolder(path=tmp_path).file(name), {"HF_TOKEN": "hf_planted_token_1234"}) == ()


def test_secrets_in_a_compressed_report_are_found_in_its_export(tmp_path: Path) -> None:
    """A report is compressed; its export contains the program's output and, since 2023, its environment."""
    made = Export()
    made.string("long output of a program\n" * 9_000 + "the token is hf_planted_token_1234\n" + "more\n" * 9_000)
    path = made.write(tmp_path / "p.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        started = [
            ("PROCESS_0:ENVIRONMENT_VARIABLE", text) for text in ('WANDB_API_KEY="0123456789"', 'HF_HOME="/data/cache"')
        ]
        connection.executemany("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", started)
    connection.close()
    with open_profile(path) as database:
        environ = {"HF_TOKEN": "hf_planted_token_1234", "NGC_API_KEY": "another-secret"}
        assert exported_secrets(database, environ) == ("HF_TOKEN", "WANDB_API_KEY")
