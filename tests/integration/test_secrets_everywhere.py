"""Secrets are planted everywhere; then every file of the install, every archive and all output is searched for them."""

from __future__ import annotations

import base64
import gzip
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from .conftest import Llmbx

VARIABLES = {
    "HF_TOKEN": "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",
    "HUGGING_FACE_HUB_TOKEN": "hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh",
    "AWS_ACCESS_KEY_ID": "AKIAQ7NPLANTED000001",
    "AWS_SECRET_ACCESS_KEY": "wJalrPLANTED/K7MDENG+bPxRfiCYplantedKEY1",
    "AWS_SESSION_TOKEN": "FwoGZXIvYXdzPLANTED//////////wEaDplantedsession",
    "GITHUB_TOKEN": "ghp_planted0123456789abcdefABCDEF012345",
    "GH_PAT": "github_pat_11PLANTED0abcdefghijklmnopqrstuvwxyz0123",
    "GITLAB_TOKEN": "glpat-planted-0123456789abcd",
    "NGC_API_KEY": "nvapi-planted0123456789abcdefghijklmnopqrstuvw",
    "SLURM_JWT": "eyJhbGciOiJIUzI1NiJ9.eyJwbGFudGVkIjoxfQ.c2lnbmF0dXJlLXBsYW50ZWQ",
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdefplanted1",
    "PGPASSWORD": "planted pass'word\"1",
    "MYSQL_PWD": "planted-mysql-pw-%41",
    "OPENAI_API_KEY": "sk-planted0123456789abcdefghijklmnop",
    "ANTHROPIC_API_KEY": "sk-ant-planted-0123456789-abcdefghij",
    "SLACK_TOKEN": "xoxb-planted-0123456789-abcdef",
    "NPM_TOKEN": "npm_planted0123456789abcdefghijklmnopqr",
    "PYPI_TOKEN": "pypi-AgEIcHlwaS5vcmcCJGplanted0123456789abcdefghijklmnopqrstuv",
    "DOCKER_PASSWORD": "dckr_pat_planted-0123456789abcde",
    "DOCKER_AUTH_CONFIG": '{"auths":{"r.example":{"auth":"cGxhbnRlZDpwbGFudGVk"}}}',
    "AZURE_CLIENT_SECRET": "planted~azure.secret_0123456789",
    "GOOGLE_API_KEY": "AIzaSyPLANTED0123456789abcdefghijklmnop",
    "SENDGRID_API_KEY": "SG.planted0123456789ab.planted0123456789abcdefghij",
    "TWINE_PASSWORD": "planted-twine-0123456789",
    "MLFLOW_TRACKING_PASSWORD": "planted-mlflow-0123456789",
    "COMET_API_KEY": "plantedcomet0123456789",
    "NEPTUNE_API_TOKEN": "cGxhbnRlZG5lcHR1bmUwMTIzNDU2Nzg5",
    "CLEARML_API_SECRET_KEY": "planted-clearml-0123456789",
    "REDIS_PASSWORD": "planted-redis-0123456789",
    "DB_PASS": "planted-db-0123456789",
    "SSHPASS": "planted-sshpass-0123456789",
    "LDAP_CREDENTIALS": "planted-ldap-0123456789",
    "VAULT_TOKEN": "hvs.planted0123456789abcdefgh",
    "TF_API_TOKEN": "planted.atlasv1.0123456789abcdef",
    "SESSION_COOKIE": "planted-cookie-0123456789",
    "DEPLOY_KEY": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEplantedAAAABG5vbmUAAAA\n"
    "plantedkeyline2plantedkeyline2\n-----END OPENSSH PRIVATE KEY-----",
}
"""Secrets in the environment, by name."""

BARE = [
    "hf_PrintedWithoutAnyVariable0123456789ab",
    "ghp_printed0123456789abcdefABCDEF0123456",
    "AKIAPRINTED000000002",
    "eyJwcmludGVkIjoxfQ.eyJwcmludGVkIjoyfQ.cHJpbnRlZHByaW50ZWQ",
    "nvapi-printed0123456789abcdefghijklmnopqrstuvw",
]
"""Tokens in the log that no variable has: they are known by their form."""

URLS = ["http://bob:planted-proxy-word@proxy.example:3128", "postgresql://ann:planted-db-word@db.example/x"]
"""URLs with a password, in the environment as https_proxy and DATABASE_URL."""

HARMLESS = "the model has 4096 tokens"


def words() -> dict[str, str]:
    """What must not be found, by what it is: each secret, and each of its usual encodings."""
    found = {}
    for name, value in {**VARIABLES, **{f"bare {k}": v for k, v in enumerate(BARE)}}.items():
        lines = [line for line in value.splitlines() if not line.startswith("-----")]
        for line in lines:
            found[f"{name}: {line}"] = line
            found[f"{name}, in JSON: {line}"] = json.dumps(line)[1:-1]
            if name in VARIABLES:
                found[f"{name}, in a URL: {line}"] = quote(line, safe="")
                found[f"{name}, in hexadecimal: {line}"] = line.encode().hex()
        if name in VARIABLES:
            for before in range(3):
                core = base64.b64encode(b"x" * before + value.encode() + b"yyy").decode()
                found[f"{name}, in base64 at {before}"] = core[4 : len(core) - 8]
    found |= {f"the password of {url}": url.split("@")[0].rpartition(":")[2] for url in URLS}
    return found


def leaked() -> str:
    """What a job prints that prints everything."""
    lines = [VARIABLES["HF_TOKEN"], HARMLESS]
    for value in (*VARIABLES.values(), *BARE, *URLS):
        lines += [
            f"value {value} printed",
            json.dumps({"value": value}),
            f"https://x.example/?v={quote(value, safe='')}",
        ]
        if value in VARIABLES.values():
            lines += [base64.b64encode(b"x" * k + value.encode() + b"yyy").decode() for k in range(3)]
            lines += [value.encode().hex()]
    middle = len("\n".join(lines)) // 2
    text = "\n".join(lines) + "\n"
    return f"{text[:middle]}{VARIABLES['WANDB_API_KEY']}{text[middle:]}"  # it is split over two writes


def readable(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """The content of every file below a folder, also of those in archives."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        data = path.read_bytes()
        yield path, data
        if tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                for member in archive.getmembers():
                    if member.isfile():
                        yield path / member.name, archive.extractfile(member).read()  # type: ignore[union-attr]
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive_:
                yield from ((path / name, archive_.read(name)) for name in archive_.namelist())
        elif data.startswith(b"\x1f\x8b"):
            yield path, gzip.decompress(data)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    leaks = tmp_path / "leaks.txt"
    leaks.write_text(leaked())
    return {
        **VARIABLES,
        "https_proxy": URLS[0],
        "DATABASE_URL": URLS[1],
        "TOY_LEAKS": str(leaks),
        "NCCL_DEBUG": "WARN",
        "NO_ALLOWED_NAME": "kept nowhere",
    }


def test_no_secret_is_in_any_file_or_output(
    llmbx: Llmbx, install: Path, tmp_path: Path, environ: dict[str, str], only_run: Callable[[], Path]
) -> None:
    printed = {}

    def say(*command: str) -> None:
        done = llmbx(*command, env=environ)
        # 1: the training ends with an error that has a secret in its text; 4: doctor, without Slurm
        assert done.returncode in (0, 1, 4, 5) and "Traceback" not in done.stderr, (command, done.stdout, done.stderr)
        printed[" ".join(command)] = done.stdout + done.stderr

    say("run", "--plugin", "toy", "line")
    say("run", "--plugin", "toy", "line")
    first, second = (json.loads(path.read_text())["run_id"] for path in install.rglob("run.json"))
    run = ("last",)
    for command in (
        ("show", "toy", "line"),
        ("run", "--plugin", "toy", "line", "--dry-run"),
        ("jobs", "--format", "json"),
        ("jobs", "--format", "csv"),
        ("jobs",),
        ("logs", *run),
        ("status", *run),
        ("parse", *run),
        ("parse", *run, "--format", "json"),
        ("report", *run),
        ("report", *run, "--format", "json"),
        ("report", *run, "--html", str(tmp_path / "out" / "report.html")),
        ("compare", first, second),
        ("doctor",),
        ("plugins",),
    ):
        say(*command)
    say("run", "--plugin", "toy", "line", "--set", "fault=network", "--retries", "1")
    (archived,) = install.rglob("attempts/0/log-*.out")
    assert HARMLESS in archived.read_text(), "the attempt that is kept has printed everything, too"
    assert "<html" in (tmp_path / "out" / "report.html").read_text()
    assert [path for path in install.rglob("result*.json*") if HARMLESS in path.read_text()], (
        "the job's own result is kept"
    )

    finals = [*install.rglob("configs/final.json")]
    assert len(finals) >= 3 and all(HARMLESS in path.read_text() for path in finals)
    folder = finals[0].parent.parent
    log = next(folder.glob("log-*.out")).read_text()
    assert HARMLESS in log and "*" * 30 in log and "toy step 20/20" in log
    assert (folder / "seen.json").exists() or (folder / "run.json").exists()
    record = json.loads((folder / "run.json").read_text())
    assert record["environment"]["NCCL_DEBUG"] == "WARN" and "NO_ALLOWED_NAME" not in record["environment"]
    assert not {*VARIABLES} & {*record["environment"]}

    files = [*readable(install), *readable(tmp_path / "out")]
    assert len(files) > 10
    found = [f"{what} in {path}" for path, data in files for what, word in words().items() if word.encode() in data]
    found += [
        f"{what} in the output of {command}"
        for command, text in printed.items()
        for what, word in words().items()
        if word in text
    ]
    assert found == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--env", f"MY_VALUE={VARIABLES['HF_TOKEN']}"),
        ("--env", f"PGPASSWORD={VARIABLES['PGPASSWORD']}"),
        ("--env", f"INDEX={URLS[0]}"),
        ("--set", f"fault={VARIABLES['TWINE_PASSWORD']}"),
        ("--set", f"fault={BARE[0]}"),
        ("--image", "https://bob:planted-image-word@r.example/team/image:1"),
        ("--image", "bob:planted-image-word@r.example/team/image:1"),
        ("--mount", f"/tmp:/{VARIABLES['MLFLOW_TRACKING_PASSWORD']}"),
        ("--tag", BARE[1]),
    ],
)
def test_a_secret_in_an_option_is_refused_and_not_repeated(
    arguments: tuple[str, ...], llmbx: Llmbx, install: Path, environ: dict[str, str]
) -> None:
    done = llmbx("run", "--plugin", "toy", "line", *arguments, env=environ)
    assert done.returncode == 2 and done.stderr.strip().count("\n") == 0, done.stderr
    assert not [what for what, word in words().items() if word in done.stdout + done.stderr]
    assert "planted-image-word" not in done.stdout + done.stderr
    assert not list(install.rglob("run.json"))


def test_a_secret_in_a_profile_is_refused(llmbx: Llmbx, tmp_path: Path, environ: dict[str, str]) -> None:
    profile: dict[str, Any] = {"env": f'env = {{ HF_TOKEN = "{BARE[0]}" }}', "setup": f'setup = ["export A={BARE[0]}"]'}
    for lines in profile.values():
        config = tmp_path / "llmbx.toml"
        config.write_text(f'default_cluster = "c"\n[clusters.c]\n{lines}\n')
        done = llmbx("run", "--plugin", "toy", "line", "--dry-run", env={**environ, "LLMBX_CONFIG": str(config)})
        assert done.returncode == 2 and BARE[0] not in done.stderr + done.stdout, done.stdout + done.stderr
