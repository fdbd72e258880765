"""Secrets are rejected in options and redacted from records and printed text."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.errors import UsageError
from llmbx.record.folder import pretty
from llmbx.secrets import blank, is_secret, redact, scrub, secret_names


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "NGC_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "GITHUB_TOKENS", "my_secret", "CREDENTIALS",
     "PGPASSWORD", "HFTOKEN", "GITHUB_TOKEN2", "GH_PAT", "GH_PAT2", "MYSQL_PWD", "ROOTPWD", "DB_PASS", "SSHPASS",
     "OPENAI_APIKEY2", "ACCESSKEY", "GOOGLE_APPLICATION_CREDENTIALS", "DOCKER_AUTH_CONFIG", "TOKENIZER_TOKEN"],
)  # fmt: skip
def test_secret_names(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    ["TOKENIZERS_PARALLELISM", "KEYBOARD", "PATH", "MONKEY", "SECRETARY", "PWD", "OLDPWD", "APPTAINER_PWD",
     "TOKENIZER", "tokens_per_s", "MAX_NUM_TOKENS", "PYTHONPATH", "GIT_ASKPASS", "SSH_AUTH_SOCK", "XAUTHORITY",
     "NCCL_IB_PKEY", "NCCL_DEBUG", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_MAX_CONNECTIONS", "PATTERN", "PWDEBUG",
     "COMPASS", "MAX_TOKENS", "TRAIN_TOKENS", "MAX_TOKEN_LEN", "TOKEN_DISPATCHER_TYPE", "EOS_TOKEN", "SEQ_KEY",
     "TORCHINDUCTOR_CACHE_KEY", "NUM_TOKENS_PER_EXPERT", "TOTAL_TRAIN_TOKENS"],
)  # fmt: skip
def test_ordinary_names(name: str) -> None:
    assert not is_secret(name)


def test_redaction_keeps_names_and_empty_values() -> None:
    assert redact({"HF_TOKEN": "hf_abc", "EMPTY_TOKEN": "", "PATH": "/bin"}) == {
        "HF_TOKEN": "***",
        "EMPTY_TOKEN": "",
        "PATH": "/bin",
    }


@pytest.mark.parametrize(
    ("text", "blanked"),
    [
        ("http://bob:wo:rd@proxy:3128", "http://***@proxy:3128"),
        ("https://hf_abc@index.example/simple https://u:p@ss@b/c", "https://***@index.example/simple https://***@b/c"),
        ("postgresql://bob:@host/db?user=a@b", "postgresql://***@host/db?user=a@b"),
        ("ssh://git@host/a.git http://host:80/a@b?c=d:e@f", "ssh://git@host/a.git http://host:80/a@b?c=d:e@f"),
    ],
)
def test_a_url_keeps_all_but_its_password(text: str, blanked: str) -> None:
    assert blank(text) == blank(blanked) == blanked
    assert redact({"https_proxy": text}) == {"https_proxy": blanked}
    assert scrub(text, {}) == blanked and pretty([text]).decode() == f'[\n  "{blanked}"\n]\n'


def test_a_secret_as_an_option_is_refused() -> None:
    with pytest.raises(UsageError, match=r"export HF_TOKEN instead \(it is forwarded by name\)"):
        secret_names({}, {"HF_TOKEN": "hf_abc"})
    with pytest.raises(UsageError, match=r"export PGPASSWORD instead \(ranks outside of a container inherit it\)"):
        secret_names({}, {"PGPASSWORD": "abc"})
    with pytest.raises(UsageError, match=r"--env https_proxy=…: .*; export https_proxy instead") as refused:
        secret_names({}, {"https_proxy": "http://bob:word@proxy"})
    assert "word@" not in str(refused.value)


def test_a_secret_in_a_cluster_profile_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^cluster 'c' in a\.toml: env\.HF_TOKEN: .*; export HF_TOKEN instead"):
        secret_names({}, {}, {"HF_TOKEN": "hf_abc"}, "cluster 'c' in a.toml")


def test_known_secrets_are_forwarded_by_name_when_set() -> None:
    assert secret_names({"HF_TOKEN": "x", "NGC_API_KEY": ""}, {"A": "b"}) == ("HF_TOKEN",)


def test_values_are_scrubbed_from_text() -> None:
    environ = {"HF_TOKEN": "hf_planted_token", "SHORT_KEY": "abc"}
    assert scrub("argv --token hf_planted_token abc", environ) == "argv --token *** abc"


def test_a_value_that_is_not_utf_8_is_searched_for_without_an_error() -> None:
    value = b"gr\xfcn-12345".decode(errors="surrogateescape")
    assert scrub(f"login {value} failed", {"DB_PASSWORD": value}) == "login *** failed"


def test_a_folder_of_secrets_and_a_number_are_not_taken_for_secrets(tmp_path: Path) -> None:
    """Their text is in paths and figures of records, which would be damaged."""
    environ = {"SECRETS_DIR": str(tmp_path), "DB_PASSWORD": "123456789"}
    text = f'{{"install": "{tmp_path}/llmb", "created": 1700123456789.5}}'
    assert scrub(text, environ) == text
    assert scrub("see /no/such/folder0", {"SECRETS_DIR": "/no/such/folder0"}) == "see ***"
