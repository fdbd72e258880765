"""Secrets never reach options, records or shown text."""

from __future__ import annotations

import pytest

from llmbx.errors import UsageError
from llmbx.secrets import is_secret, redact, scrub, secret_names


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "NGC_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "GITHUB_TOKENS", "my_secret", "CREDENTIALS"],
)
def test_secret_names(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "KEYBOARD", "PATH", "MONKEY", "SECRETARY"])
def test_ordinary_names(name: str) -> None:
    assert not is_secret(name)


def test_redaction_keeps_names_and_empty_values() -> None:
    assert redact({"HF_TOKEN": "hf_abc", "EMPTY_TOKEN": "", "PATH": "/bin"}) == {
        "HF_TOKEN": "***",
        "EMPTY_TOKEN": "",
        "PATH": "/bin",
    }


def test_a_secret_given_as_an_option_is_refused() -> None:
    with pytest.raises(UsageError, match="export HF_TOKEN instead"):
        secret_names({}, {"HF_TOKEN": "hf_abc"})


def test_known_secrets_are_forwarded_by_name_when_set() -> None:
    assert secret_names({"HF_TOKEN": "x", "NGC_API_KEY": ""}, {"A": "b"}) == ("HF_TOKEN",)


def test_values_are_scrubbed_from_text() -> None:
    environ = {"HF_TOKEN": "hf_planted_token", "SHORT_KEY": "abc"}
    assert scrub("argv --token hf_planted_token abc", environ) == "argv --token *** abc"
