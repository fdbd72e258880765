"""Steps, window and profiled steps: which of a run's steps are trained, measured and profiled."""

from __future__ import annotations

from typing import Any

import pytest

from llmbx.config.request import Request
from llmbx.errors import UsageError
from llmbx.model import ProfileSpec, RunSpec
from llmbx.resolve.profiled import again

from .curves import CLUSTER, NEW, installed, resolved

TARGET = {"size": "70b", "gpu_type": "h100", "gpus": 64}


def refusal(**options: Any) -> str:
    with pytest.raises(UsageError) as refused:
        resolved(**TARGET, **options)
    return str(refused.value)


def profiled(**options: Any) -> ProfileSpec:
    profile = resolved(**TARGET, **options).profile
    assert profile is not None
    return profile


def test_profiled_steps_are_half_open_and_the_recipes_by_default() -> None:
    spec = resolved(**TARGET, profile=True)
    assert spec.profile is not None and (spec.profile.start, spec.profile.stop) == (10, 12)
    assert (spec.steps, spec.origins["steps"]) == (15, "a profiled run's length")
    assert spec.profilers == ("clock",) and spec.profile.tool == "clock"


def test_steps_alone_ask_for_a_profile() -> None:
    assert (profiled(profile_steps="0-1").start, profiled(profile_steps="0-1").stop) == (0, 1)
    assert resolved(**TARGET).profile is None


@pytest.mark.parametrize(("asked", "steps"), [("3-15", 15), ("3-16", 16), ("45-50", 50)])
def test_a_profiled_run_is_long_enough_for_its_profile(asked: str, steps: int) -> None:
    """Step B is not profiled, so that B steps suffice."""
    assert resolved(**TARGET, profile_steps=asked).steps == steps


@pytest.mark.parametrize("option", ["--max-steps", "--steps"])
def test_the_last_profiled_step_is_the_last_of_the_run_at_most(option: str) -> None:
    spec = resolved(**TARGET, profile_steps="3-8", steps=8, steps_option=option)
    assert (spec.steps, spec.origins["steps"]) == (8, option)
    problem = refusal(profile_steps="3-8", steps=7, steps_option=option)
    assert problem == f"{option} 7: the profiled steps 3-8 end after the last step"


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ("5-5", "--steps 5-5: expected A-B with A < B (half-open, counted from zero)"),
        ("7-5", "--steps 7-5: expected A-B with A < B (half-open, counted from zero)"),
        ("5", "--steps '5': expected A-B, for example 45-50"),
        ("a-b", "--steps 'a-b': expected A-B, for example 45-50"),
        ("-1-5", "--steps '-1-5': expected A-B, for example 45-50"),
    ],
)
def test_steps_that_are_no_span_are_refused(asked: str, problem: str) -> None:
    assert refusal(profile_steps=asked) == problem


def test_a_variable_must_not_end_the_profile_before_it_starts() -> None:
    problem = refusal(environ={"ENABLE_PROFILE": "1", "PROFILE_STOP_STEP": "10"})
    assert problem == "--steps 10-10: expected A-B with A < B (half-open, counted from zero)"


def test_a_run_has_at_least_one_step() -> None:
    assert refusal(steps=-1) == "--steps -1: expected an integer >= 1"
    assert resolved(**TARGET, steps=1).steps == 1


@pytest.mark.parametrize(
    ("selector", "ranks", "origin"),
    [
        (None, "0-3", "recipe new"),
        ("seed", "0-3", "--ranks seed"),
        ("all", "all", "--ranks all"),
        ("first,mid,last", "0,32,48", "--ranks first,mid,last"),
        ("60-63,2", "2,60-63", "--ranks 60-63,2"),
    ],
)
def test_profiled_ranks_are_the_recipes_or_those_of_the_option(selector: str | None, ranks: str, origin: str) -> None:
    spec = resolved(**TARGET, profile=True, profile_ranks=selector)
    assert spec.profile is not None
    assert (spec.profile.ranks, spec.origins["profile.ranks"]) == (ranks, origin)


def test_a_rank_that_the_run_does_not_have_is_refused() -> None:
    problem = refusal(profile=True, profile_ranks="0,64")
    assert problem == "ranks '0,64': there is no rank 64, the run has ranks 0 to 63"


def test_secrets_reach_profiled_ranks_only_if_asked_for() -> None:
    """A profile stores the environment of a process."""
    environ = {"HF_TOKEN": "hf_secretsecret"}
    assert resolved(environ, **TARGET).secrets == ("HF_TOKEN",)
    assert resolved(environ, **TARGET, profile=True).secrets == ()
    assert resolved(environ, **TARGET, profile=True, keep_secrets=True).secrets == ("HF_TOKEN",)


@pytest.mark.parametrize(
    ("first_step", "steps", "window"),
    [(1, 18, "11-18"), (1, 17, "auto"), (0, 19, "11-18"), (0, 18, "auto")],
)
def test_a_run_that_ends_before_the_recipes_window_is_measured_automatically(
    first_step: int, steps: int, window: str
) -> None:
    """The log numbers its steps from 0 or from 1."""
    spec = resolved(plugins=installed(first_step), **TARGET, steps=steps)
    why = "recipe new"
    if window == "auto":
        why = f"the run of {steps} steps ends before the recipe's window 11-18"
    assert (spec.window, spec.origins["window"]) == (window, why)


def test_a_requested_window_that_the_run_does_not_reach_is_refused() -> None:
    numbered = "numbered 0 to 19 in its log; use an earlier window or a larger --steps"
    with pytest.raises(UsageError) as refused:
        resolved(plugins=installed(0), **TARGET, window="15-20")
    assert str(refused.value) == f"--window 15-20: the run has only 20 steps, {numbered}"
    assert resolved(plugins=installed(1), **TARGET, window="15-20").window == "15-20"
    assert resolved(plugins=installed(0), **TARGET, window="15-20", steps=21).window == "15-20"
    assert resolved(plugins=installed(1), **TARGET, window="LAST").window == "last"


@pytest.mark.parametrize(
    ("window", "problem"),
    [
        ("9", "window '9': expected A-B such as 35-44 (inclusive, in the log's step numbers), last or auto"),
        ("9-5", "window '9-5': the first step is after the last; did you mean 5-9?"),
    ],
)
def test_a_window_that_cannot_be_read_is_refused(window: str, problem: str) -> None:
    assert refusal(window=window) == problem


def test_a_profiler_may_set_length_and_time_limit_of_its_runs() -> None:
    spec = resolved(**TARGET, wrappers=("probe",))
    assert (spec.steps, spec.origins["steps"]) == (12, "default with probe")
    assert (spec.walltime_minutes, spec.origins["walltime_minutes"]) == (45, "default with probe")
    assert (spec.profilers, spec.window) == (("probe",), "auto")
    assert spec.disturbed == ("the profiler probe changes the step time",)
    longer = resolved(**TARGET, wrappers=("probe",), steps=30, walltime_minutes=60)
    assert (longer.steps, longer.walltime_minutes) == (30, 60), "options are stronger"


def test_a_profiler_shortens_the_time_limit_and_never_extends_it() -> None:
    small = {"size": "8b", "gpu_type": "h100", "gpus": 8}
    assert resolved(**small, wrappers=("probe",)).walltime_minutes == 30, "the recipe's limit for 8b"


@pytest.mark.parametrize(
    ("options", "environ", "cluster", "profilers"),
    [
        ({}, {}, None, ()),
        ({"plugin_settings": {"probe": {"enabled": True}}}, {}, None, ("probe",)),
        ({}, {"ENABLE_PROBE": "1"}, None, ("probe",)),
        ({}, {}, {"plugin_keys": {"probe": {"enabled": True}}}, ("probe",)),
        ({"plugin_settings": {"probe": {"enabled": False}}}, {"ENABLE_PROBE": "1"}, None, ()),
        ({"wrappers": ("probe", "probe"), "profile": True}, {"ENABLE_PROBE": "1"}, None, ("probe", "clock")),
    ],
    ids=["none", "option", "variable", "profile", "option against variable", "once each, profiler last"],
)
def test_profilers_are_enabled_by_name_or_by_their_settings(
    options: dict[str, Any], environ: dict[str, str], cluster: dict[str, Any] | None, profilers: tuple[str, ...]
) -> None:
    assert resolved(environ, cluster, **TARGET, **options).profilers == profilers


def test_an_unknown_profiler_is_refused_with_a_suggestion() -> None:
    assert refusal(wrappers=("prob",)) == "no profiler named 'prob' (did you mean 'probe'?)"
    assert refusal(profile=True, profile_tool="clok") == "no profiler named 'clok' (did you mean 'clock'?)"


def test_a_traced_run_has_its_tool_in_its_name_and_is_not_profiled() -> None:
    spec = resolved(**TARGET, wrappers=("wire",))
    assert spec.trace is not None and spec.trace.tool == "wire" and spec.experiment.endswith("_wire")
    assert spec.disturbed == (), "traced runs are marked as such"
    problem = refusal(wrappers=("wire",), profile=True)
    assert problem == (
        "profiling cannot be combined with wire: the profile would include the trace's logging; use two runs"
    )


def repeated(spec: RunSpec, environ: dict[str, str] | None = None, **options: Any) -> RunSpec:
    """The specification of `llmbx profile` without a workload after the run `spec`."""
    request = Request(workload="curve", profile=True, **options)
    return again(spec, NEW, request, environ or {}, installed(), first=1)


def test_a_repeated_run_keeps_everything_but_its_length_and_its_profile() -> None:
    before = resolved({"HF_TOKEN": "hf_secretsecret"}, **TARGET, settings={"tp": "2"}, tags=("mine",), retries=2)
    after = repeated(before, profile_steps="3-5", profile_ranks="last")
    assert after.profile == ProfileSpec(
        start=3, stop=5, ranks="48", tool="clock", name=NEW.profile_name, keep_secrets=False
    )
    assert (after.steps, after.window, after.profilers, after.secrets) == (15, "auto", ("clock",), ())
    changed = {"profile", "steps", "window", "profilers", "secrets", "origins"}
    kept = {name: getattr(after, name) for name in RunSpec.__struct_fields__ if name not in changed}
    assert kept == {name: getattr(before, name) for name in kept}
    assert after.origins["tp"] == "--set tp" and after.origins["steps"] == "a profiled run's length"


def test_a_repeated_run_keeps_a_window_that_it_reaches() -> None:
    before = resolved(**TARGET)
    assert repeated(before, steps=18).window == "11-18"
    assert repeated(before, steps=17).window == "auto"


def test_a_repeated_run_needs_the_steps_that_it_profiles() -> None:
    before = resolved(**TARGET)
    assert repeated(before, profile_steps="10-20").steps == 20
    assert repeated(before, profile_steps="3-8", steps=8).origins["steps"] == "--max-steps"
    with pytest.raises(UsageError, match=r"^--max-steps 7: the profiled steps 3-8 end after the last step$"):
        repeated(before, profile_steps="3-8", steps=7)


def test_a_repeated_traced_run_is_profiled_instead() -> None:
    after = repeated(resolved(**TARGET, wrappers=("wire", "probe")), profile_steps="3-5")
    assert (after.trace, after.profilers) == (None, ("probe", "clock"))
    assert after.disturbed == ("the profiler probe changes the step time",)


def test_a_repeated_run_has_the_profilers_settings_of_now_and_of_its_cluster() -> None:
    cluster = {"plugin_keys": {"clock": {"unit": "s"}}}
    of_profile = repeated(resolved({}, cluster, **TARGET), profile_steps="3-5")
    assert of_profile.plugin_settings["clock"] == {"unit": "s"}
    assert of_profile.origins["clock.unit"] == CLUSTER
    of_then = resolved(**TARGET, wrappers=("clock",), plugin_settings={"clock": {"unit": "us"}})
    assert of_then.plugin_settings["clock"] == {"unit": "us"}
    assert "clock" not in repeated(of_then, profile_steps="3-5").plugin_settings
    of_now = repeated(of_then, {"CLOCK_UNIT": "ns"}, profile_steps="3-5")
    assert of_now.plugin_settings["clock"] == {"unit": "ns"} and of_now.origins["clock.unit"] == "CLOCK_UNIT"


def test_a_repeated_run_keeps_the_settings_of_the_profilers_that_it_still_has() -> None:
    before = resolved(**TARGET, wrappers=("probe",), plugin_settings={"probe": {"rate": 9}})
    assert repeated(before, profile_steps="3-5").plugin_settings["probe"] == {"rate": 9}
