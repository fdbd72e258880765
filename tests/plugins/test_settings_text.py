"""Settings that are free text: what cannot be right is refused before the start."""

from __future__ import annotations

import pytest

from llmbx.api import settings_of
from llmbx.errors import UsageError
from llmbx.testing import resolve_spec
from llmbx_maxtext.settings import MaxtextSettings
from llmbx_nemo.settings import NemoSettings

KINDS = {"grok1": NemoSettings, "llama2": MaxtextSettings}


@pytest.mark.parametrize(
    ("workload", "setting", "text", "said"),
    [
        ("grok1", "overrides", "foo", "overrides: 'foo': expected section.field=value"),
        ("grok1", "overrides", "train.x=1 y=2", "overrides: 'y=2': expected section.field=value"),
        ("llama2", "extra", "a=1 shardy", "extra: 'shardy': expected key=value"),
        ("llama2", "attention", "; rm", "attention: '; rm': expected a name, for example dot_product"),
        ("llama2", "remat_policy", "", "remat_policy: '': expected a name, for example full"),
    ],
)
def test_text_that_cannot_be_right_is_refused(workload: str, setting: str, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        settings_of(resolve_spec(workload, settings={setting: text}), KINDS[workload])
