"""What `llmbx show` says about published figures."""

from __future__ import annotations

import csv
import io
import json

import pytest
from click.testing import CliRunner

from llmbx_site.show import command

LLAMA = ("nemo", "llama3.1", "--size", "405b", "--launcher", "local", "--runtime", "host")
MEASURED = (*LLAMA, "--dtype", "fp8", "--gpu-type", "h100", "--gpus", "512")
NOT_MEASURED = (*LLAMA, "--dtype", "fp8", "--gpu-type", "gb200", "--gpus", "512")


def shown(*arguments: str) -> str:
    done = CliRunner().invoke(command, list(arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    ("asked", "value", "origin"),
    [
        (MEASURED, "12.37 s per step, MFU 44.35 % of 1979", "Llama 3.1 recipe"),
        (
            NOT_MEASURED,
            "none: use a run of your own (--baseline)",
            "no published figures for llama3.1 405b fp8",
        ),
        (
            ("gpt-oss", "--gpu-type", "h100", "--gpus", "64"),
            "158 TFLOP/s per GPU",
            "release 26.04.01; disputed: the TFLOP/s count 27.2 of 32.6 GFLOP",
        ),
        ((*MEASURED, "--set", "gbs=1024"), "none: use", "another job: the global batch size differs (256 was"),
    ],
)
def test_a_row_says_whether_it_has_a_published_figure(asked: tuple[str, ...], value: str, origin: str) -> None:
    rows = {row["setting"]: row for row in csv.DictReader(io.StringIO(shown(*asked, "--format", "csv")))}
    assert value in rows["published"]["value"] and origin in rows["published"]["origin"]


def test_the_peak_is_the_data_sheets_and_names_its_source() -> None:
    """The recipes print 4900 for the same GPU; 10 PFLOPS with sparsity are 5000 TFLOP/s without."""
    rows = {row["setting"]: row for row in csv.DictReader(io.StringIO(shown(*NOT_MEASURED, "--format", "csv")))}
    assert rows["peak_tflops"]["value"] == "5000"
    assert rows["peak_tflops"]["origin"].startswith("GB200 dense FP8; NVIDIA GB200 NVL72 data sheet")


def test_json_has_the_figure_or_the_reason() -> None:
    found, missing = (json.loads(shown(*asked, "--format", "json")) for asked in (MEASURED, NOT_MEASURED))
    assert found["reference"]["step_time_s"] == 12.37 and found["no_reference_because"] is None
    assert missing["reference"] is None and "on 512 x gb200" in missing["no_reference_because"]


def test_a_configuration_that_is_not_in_the_catalog_is_a_usage_error() -> None:
    for more in ((), ("--format", "json")):
        asked = ["nemo", "grok1", "--gpu-type", "h100", "--gpus", "17", "--dtype", "fp8", *more]
        done = CliRunner().invoke(command, asked)
        assert done.exit_code == 2 and "314b" in done.stdout
    text = CliRunner().invoke(command, asked[:-2]).stderr
    problem = "grok1 314b fp8 on h100 has no configuration for 17 GPUs, and that for 512 GPUs does not scale to them"
    assert f"problem: {problem}; use --gpus 64" in text
    assert CliRunner().invoke(command, ["grok1", "--gpu-type", "h100", "--gpus", "64"]).exit_code == 0, "as it says"


def test_a_derived_row_is_marked() -> None:
    """A row of another GPU type, scaled: marked in the table, in JSON and on stderr."""
    asked = ["llama3.1", "--size", "8b", "--gpu-type", "h200", "--gpus", "24"]
    done = CliRunner().invoke(command, [*asked, "--format", "json"])
    facts = json.loads(done.stdout)
    assert (done.exit_code, facts["layout_of"], facts["scaled_from"]) == (0, "h100", 32)
    assert facts["no_reference_because"] == "layout of h100, scaled from 32 GPUs; no published figure for 24 x h200"
    text = CliRunner().invoke(command, asked)
    assert "note: layout of h100; no published figure for h200" in text.stderr
    assert "note: scaled from 32 to 24 GPUs" in text.stderr
    assert "layout_of" in text.stdout and "the nearest GPU type with a recipe" in text.stdout
