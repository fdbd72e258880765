"""Each form of secret is found wherever it stands, and what only looks like one is left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.entry.secrets import REDACTED, blank
from llmbx.record.masking import CHUNK, OVERLAP, Masker

from .secret_examples import BESIDE, TOKENS

PLACES = (
    "{}", "VALUE={}", "export VALUE='{}'", "declare -x VALUE=\"{}\"", '{"value": "{}", "x": 1}', "value: {}", "- {}",
    "value: '{}'  # comment", "run --value {} --steps 10", "run --value={}", "X-Value: {}", "> {} <",
    "<value>{}</value>",
    "GET https://x.example/path?value={}&b=1 HTTP/1.1", "{'value': '{}', 'x': 1}", "Settings(value='{}', x=1)", "({})",
    "[rank3]: ValueError: {} is wrong",
    "0: 12: 2026-01-01 12:00:00,123 - INFO - {}", "\x1b[1;32m{}\x1b[0m",
    "(worker pid=12, ip=10.0.0.1) \x1b[36m{}\x1b[0m", "first\\n{}\\nnext", '"{\\"value\\": \\"{}\\"}"', "value%3D{}",
    "a\t{}\tb", "{},{}", "`{}`",
)  # fmt: skip
"""Surroundings of a token."""

LINES = ("{}\n", "step 1\n[rank0]: {}\nstep 2\n", "2026-01-01T00:00:00Z node1 0: {}\n", "\x1b[36m(pid=1)\x1b[0m {}\n")
"""Surroundings of a text that names its secret."""


def wrong(line: str, secret: str) -> list[str]:
    """The masked forms of a line that keep the secret, change more than it, or are masked once more."""
    before, _, after = line.partition(secret)
    masked, blanked = Masker({}).mask(line.encode()).decode(), blank(line)
    only_secret = (
        masked.startswith(before)
        and masked.endswith(after.rpartition(secret)[2])
        and len(masked) == len(line)
        and Masker({}).mask(masked.encode()).decode() == masked
    )
    outcomes = ((masked, only_secret), (blanked, REDACTED in blanked))
    return [text for text, right in outcomes if not right or secret[-12:] in text]


def test_a_token_is_masked_in_every_place() -> None:
    lines = [(token, place.replace("{}", token.secret)) for token in TOKENS for place in PLACES]
    assert [(token.name, texts) for token, line in lines if (texts := wrong(line, token.secret))] == []


def test_a_secret_beside_its_name_is_masked() -> None:
    for example in BESIDE:
        text = example.text.replace("{}", example.secret)
        lines = [place.replace("{}", text) for place in LINES]
        assert [texts for line in lines if (texts := wrong(line, example.secret))] == [], example.name


HARMLESS = (Path(__file__).parent / "harmless_lines.txt").read_text().splitlines()


@pytest.mark.parametrize("place", LINES)
def test_a_line_without_a_secret_is_left(place: str) -> None:
    for line in HARMLESS:
        text = place.replace("{}", line)
        assert Masker({}).mask(text.encode()).decode() == text
        assert blank(text) == text


ROOT = Path(__file__).parents[3]
LOGS = sorted(
    path
    for pattern in ("tests/fixtures/logs/**/*.out", "tests/**/golden/**/*", "examples/**/*.log")
    for path in ROOT.glob(pattern)
    if path.is_file()
)


def test_every_sample_of_a_log_and_every_golden_file_is_left() -> None:
    environ = {"MAX_TOKENS": "16777216", "TRAIN_TOKENS": "83886080", "SEQ_TOKEN": "10240", "MY_SECRET": "12345678"}
    assert len(LOGS) > 50
    assert [path for path in LOGS if Masker(environ).mask(data := path.read_bytes()) != data] == []


CODE = sorted(
    path for pattern in ("core/**/*", "plugins/**/*") for path in ROOT.glob(pattern) if "/entry/" in str(path)
)


def test_the_code_that_travels_into_a_run_folder_is_left() -> None:
    """What is masked there runs when a run is repeated."""
    code = [
        path for path in (*CODE, *ROOT.glob("*/**/*.sh")) if path.suffix in (".py", ".sh") and ".venv" not in str(path)
    ]
    assert len(code) > 20
    for path in code:
        assert Masker({}).mask(path.read_bytes()) == path.read_bytes(), path


FIGURES = (
    "MAX_TOKENS={}", "TRAIN_TOKENS={}", "tokens_per_second: {}", "num_tokens={}", "consumed tokens: {} |", "token: {}",
    '{"tokens": {}, "step": {}, "key": {}, "eos_token_id": {}, "seed": {}}', "Tokens/s/device: {}, key={}", "pass: {}",
    "--max-tokens {} --seq-key {} --eos-token {}", "iteration {}/ {} | consumed samples: {} | tokens/sec/GPU: {}",
    "moe_token_capacity ............ {}", "{'tokens_per_step': {}, 'sink_tokens': {}}", "bypass={} passes: {}",
)  # fmt: skip


@given(st.integers(0, 10**14) | st.floats(0, 1e15, allow_nan=False), st.sampled_from(FIGURES))
def test_no_figure_is_masked(number: float, line: str) -> None:
    text = line.replace("{}", str(number))
    environ = {"MAX_TOKENS": str(number), "TRAIN_TOKENS": str(number), "DB_PASSWORD": str(number), "A_SECRET": "1" * 9}
    assert Masker(environ).mask(text.encode()).decode() == text


def test_a_number_is_masked_beside_the_name_of_its_variable_only() -> None:
    environ = {"DB_PASSWORD": "8472619304", "MAX_TOKENS": "16777216", "TRAIN_TOKENS": "83886080"}
    for line, masked in (
        ("DB_PASSWORD is 8472619304.", "DB_PASSWORD is **********."),
        ("login of bob with 8472619304 failed", "login of bob with ********** failed"),
        ("samples 8472619304 password 18472619304 16777216 83886080", None),
        ("tokens: 83886080, MAX_TOKENS=16777216", None),
    ):
        assert Masker(environ).mask(line.encode()).decode() == (masked or line)


def test_the_value_of_a_setting_that_is_only_named_like_a_secret_is_left() -> None:
    environ = {"TOKEN_DISPATCHER_TYPE": "alltoall", "EOS_TOKEN": "<|endoftext|>", "SEQ_KEY": "text_document"}
    line = "moe_token_dispatcher_type: alltoall, eos: <|endoftext|>, text_document"
    assert Masker(environ).mask(line.encode()).decode() == line


def test_json_stays_json() -> None:
    value = {
        "db_password": 123456789012,
        "api_key": "abc\\ \"' \u2603 0123456789",
        "text": f"first\n{TOKENS[0].secret}\npassword=abc0123\n",
        "argv": ["--token", "Fake0token1Fake0token1", "--db-password=a0,b", "--steps", "10"],
        "nested": json.dumps({"secret": 'a"b0', "auth": json.dumps({"password": "x0 y"})}),
        "key": "-----BEGIN " + "PRIVATE KEY-----\nMIIE" + "Fake0" * 12 + "\nab==\n-----END " + "PRIVATE KEY-----\n",
    }
    for text in (json.dumps(value), json.dumps(value, indent=2), json.dumps(value, ensure_ascii=False)):
        for changed in (Masker({}).mask(text.encode()).decode(), blank(text)):
            left = json.loads(changed)
            assert (
                left.keys() == value.keys() and left["argv"][0] == "--token" and left["argv"][3:] == ["--steps", "10"]
            )
            assert left["text"].count("\n") == 3 and left["key"].count("\n") == 4
            for secret in (
                "123456789012",
                "0123456789",
                "abc0123",
                "Fake0token1",
                "a0,b",
                "b0",
                "x0 y",
                "Fake0",
                "ab==",
            ):
                assert secret not in changed


@pytest.mark.parametrize("prefix", ["", "0: ", "[rank0]:", "2026-01-01 12:00:00,123 - INFO - "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_private_key_of_several_lines_is_masked_and_lines_of_other_ranks_are_left(prefix: str, end: str) -> None:
    lines = ["-----BEGIN RSA " + "PRIVATE KEY-----", *["Fake0Key/+" * 6 + "Fake"] * 3, "Fa=="]
    other = " iteration 10/ 50 | consumed samples: 10240 | loss: 10.5"
    text = [prefix + line + end for line in [*lines, "-----END RSA " + "PRIVATE KEY-----"]]
    text.insert(3, other + end)
    masked = Masker({}).mask("".join(text).encode()).decode()
    assert "Fa" not in masked and other in masked and masked.count(end) == len(text)
    assert masked.count(prefix) == len(text) - 1 or not prefix
    cut_off = Masker({}).mask("".join([*text[:3], other + end]).encode()).decode()
    assert "Fa" not in cut_off and other in cut_off


def everything() -> str:
    """All examples in one text, in which no piece may be overlooked."""
    return "".join(place.replace("{}", e.text.replace("{}", e.secret)) for e in (*TOKENS, *BESIDE) for place in LINES)


@pytest.mark.parametrize("length", [777, 4096, OVERLAP + 1])
def test_a_secret_that_is_split_over_pieces_is_masked(length: int) -> None:
    data = everything().encode()
    pieces = [data[at : at + length] for at in range(0, len(data), length)]
    assert b"".join(Masker({}).stream(pieces)) == Masker({}).mask(data)


def test_a_name_that_a_piece_cuts_off_is_no_other_name(tmp_path: Path) -> None:
    """`pad_token` may be split into `pad_` and `token`."""
    log, line = tmp_path / "log.out", "pad_token=PaddingToken0123456789ABC, "
    for shift in range(len(line)):
        log.write_text("." * (CHUNK - shift) + line + "." * OVERLAP)
        pieces = iter([data := log.read_bytes()])
        assert b"".join(Masker({}).stream(pieces)) == data
        assert Masker({}).spans(data[CHUNK:], continued=True) == []


def plugins() -> Iterator[object]:
    """The detectors of another program, but for those that go by chance or by address."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    for name, plugin in get_mapping_from_secret_type_to_class().items():
        if "Entropy" not in name and "IP" not in name:
            yield plugin()


def test_another_program_finds_nothing_in_what_is_masked() -> None:
    """What detect-secrets finds in the examples is found here, too."""
    detectors, found, left = [*plugins()], 0, []
    for line in everything().splitlines():
        masked = Masker({}).mask(line.encode()).decode()
        for detector in detectors:
            found += len(detector.analyze_line("x.log", line, 1))  # type: ignore[attr-defined]
            left += [
                (secret.secret_value, masked)
                for secret in detector.analyze_line("x.log", masked, 1)  # type: ignore[attr-defined]
                if secret.secret_value.strip("*") and not secret.secret_value.startswith("BEGIN")
            ]
    assert found > 100 and left == []
