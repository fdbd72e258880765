"""What Megatron-Bridge's performance recipes refuse is reported before the run starts, with a fix."""

from __future__ import annotations

import pytest

from llmbx_nemo.performance_rules import findings
from llmbx_nemo.rules import findings as all_findings

from .refusals import CASES, FULL, Case, name_of, spec_of
from .test_rules import resolved


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_each_change_is_accepted_or_refused_by_its_rule(case: Case) -> None:
    *_, rule = case
    spec = spec_of(case)
    assert {found.rule for found in findings(spec)} == ({rule} if rule else set())
    assert not rule or rule in {found.rule for found in all_findings(spec)}


def test_a_refusal_names_what_would_be_right() -> None:
    (found,) = findings(spec_of((FULL, {"pp": "4", "vp": "3"}, "layers")))
    assert found.problem == "recipe bridge-0.6 has no split of 61 layers into PP 4 x VP 3"
    assert "--set pp=4 --set vp=2" in found.fix
    (vp,) = findings(spec_of((FULL, {"pp": "4", "vp": "1"}, "vp")))
    assert vp.problem == "recipe bridge-0.6 overlaps the communication of its experts, which needs VP above 1 with PP 4"
    assert vp.fix == "use --set vp=2, or pp=1"


def test_another_recipe_has_none_of_these_rules() -> None:
    spec = resolved("grok1", "314b", "bf16", "gb200", 256, rl="2", cg="true")
    assert findings(spec) == [] and all_findings(spec) != []
