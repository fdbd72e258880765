"""No secret reaches the profiler, every secret reaches the program; and a profile that holds one is found out."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from llmbx.secrets import is_secret
from llmbx_profiling.collect import MARK, mark_secrets, secrets_in

SCRIPT = str(resources.files("llmbx_profiling") / "secrets.sh")
DUMP = "import json, os; print(json.dumps(dict(os.environ)))"

PLAIN = {
    "PATH": os.environ["PATH"],
    "MONKEY": "1",
    "TOKENIZERS_PARALLELISM": "False",
    "KEYBOARD": "us",
    "name": "kept",
    "what": "x",
}
SECRET = {
    "HF_TOKEN": 'hf_it\'s a "$HOME" `id` \\ value',
    "NGC_API_KEY": "two\nlines\nX_TOKEN=not a variable",
    "wandb_api_key": "lower case",
    "AWS_SECRET_ACCESS_KEY": "-n",
    "DB_PASSWORD": "",
    "GOOGLE_APPLICATION_CREDENTIALS": "/a b/c",
    "MY_TOKENS": "é",
}
SHELLS = [shell for shell in ("dash", "bash") if any((Path(p) / shell).exists() for p in os.environ["PATH"].split(":"))]


def seen(shell: str, *argv: str) -> dict[str, str]:
    done = subprocess.run([shell, SCRIPT, *argv], env={**PLAIN, **SECRET}, capture_output=True, text=True, check=True)
    environment: dict[str, str] = json.loads(done.stdout)
    return {
        name: value for name, value in environment.items() if name not in ("PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE")
    }


@pytest.mark.parametrize("shell", SHELLS)
def test_the_profiler_sees_no_secret_and_the_program_sees_all(shell: str) -> None:
    assert seen(shell, "hide", sys.executable, "-c", DUMP) == PLAIN
    assert seen(shell, "hide", shell, SCRIPT, "restore", sys.executable, "-c", DUMP) == {**PLAIN, **SECRET}


@pytest.mark.parametrize("shell", SHELLS)
def test_arguments_exit_code_and_descriptors_pass(shell: str) -> None:
    program = "import os, sys; print(sys.argv[1:]); os.fstat(8)"
    argv = [shell, SCRIPT, "hide", shell, SCRIPT, "restore", sys.executable, "-c", program, "a b", "", "$x"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout == "['a b', '', '$x']\n"
    assert "Bad file descriptor" in done.stderr, "the program cannot read the secrets a second time"
    assert subprocess.run([*argv[:6], "sh", "-c", "exit 7"], check=False).returncode == 7


@pytest.mark.parametrize("shell", SHELLS)
def test_a_profiler_that_closes_descriptors_costs_the_secrets_not_the_run(shell: str) -> None:
    argv = [shell, SCRIPT, "hide", "sh", "-c", 'exec 8<&-; exec "$@"', "sh", shell, SCRIPT, "restore", "env"]
    done = subprocess.run(argv, env={**PLAIN, **SECRET}, capture_output=True, text=True, check=True)
    assert "starts without its secrets" in done.stderr and "HF_TOKEN" not in done.stdout


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "TOKEN", "A_KEY_B", "API_KEYS", "APIKEY", "X_APIKEYS", "SECRET_X", "SECRETS", "PASSWORDS", "PASSWD_1",
     "CREDENTIAL", "CREDENTIALS_FILE", "MONKEY", "TOKENIZER", "KEYRING", "PASSWORDLESS", "X_TOKENS_Y", "SECRETLY"],
)  # fmt: skip
def test_a_secret_is_what_llmbx_calls_one(name: str) -> None:
    script = f'sh "{SCRIPT}" hide env'
    done = subprocess.run(
        ["sh", "-c", script], env={"PATH": PLAIN["PATH"], name: "x"}, capture_output=True, text=True, check=True
    )
    assert (f"{name}=x" not in done.stdout.splitlines()) == is_secret(name)


def test_a_planted_token_is_found_and_the_file_marked(tmp_path: Path) -> None:
    profile = tmp_path / "p.nsys-rep"
    profile.write_bytes(
        b"\0" * 5_000 + b"printed: hf_planted_token_1234\0" + b"WANDB_API_KEY=0123456789abc\0HF_HOME=/data/cache"
    )
    environ = {
        "HF_TOKEN": "hf_planted_token_1234",
        "NGC_API_KEY": "another-secret",
        "SHORT_KEY": "print",
        "HF_HOME": "/data/cache",
    }
    assert secrets_in(profile, environ) == {"HF_TOKEN", "WANDB_API_KEY"}
    (finding,) = mark_secrets(profile, environ)
    assert finding.warning and "HF_TOKEN, WANDB_API_KEY" in finding.problem
    assert "hf_planted" not in (tmp_path / f"p.nsys-rep{MARK}").read_text()
    assert stat.S_IMODE(profile.stat().st_mode) == 0o600


def test_a_clean_profile_is_left_alone(tmp_path: Path) -> None:
    profile = tmp_path / "p.nsys-rep"
    profile.write_bytes(b"HF_TOKEN\0clean")
    assert mark_secrets(profile, {"HF_TOKEN": "hf_planted_token_1234"}) == []
    assert [path.name for path in tmp_path.iterdir()] == ["p.nsys-rep"]
    (tmp_path / "empty.nsys-rep").touch()
    assert secrets_in(tmp_path / "empty.nsys-rep", {}) == set()
