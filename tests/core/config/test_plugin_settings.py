"""Settings of plugins: precedence of sources, validation, and generated options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import pytest

from llmbx.config.plugin_settings import Joined, check_keys, current_settings, join, settings_of
from llmbx.config.profiles import Cluster, Profile
from llmbx.errors import UsageError
from llmbx.model import ImageRequest, Natural, RunSpec, Scalar
from llmbx.model.settings import Option, Settings, fields


class QueueSettings(Settings, frozen=True):
    """Settings of a fictitious launcher."""

    plugin: ClassVar[str] = "queue"

    name: Annotated[str | None, Option(help="Queue.", variables=("QUEUE", "OLD_QUEUE"))] = None
    slots: Annotated[int | None, Option(help="Slots.", variables=("SLOTS",))] = None
    eager: Annotated[bool, Option(help="Start at once.", variables=("EAGER",))] = False
    labels: Annotated[dict[str, Scalar], Option(help="A label.", name="--label")] = {}
    hidden: Annotated[float | None, Option(help="Only in a file.", name="")] = None
    order: Annotated[Literal["first", "last"] | None, Option(help="Order.", variables=("ORDER",))] = None
    patience: Annotated[Natural, Option(help="Patience.", variables=("PATIENCE",))] = 1


def profile(**keys: Any) -> Profile:
    return Profile(name="c", file="llmbx.toml", cluster=Cluster(plugin_keys=keys))


def joined(
    own: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None, **options: Any
) -> Joined:  # fmt: skip
    return join(QueueSettings, profile(**own) if own else None, environ or {}, options)


def test_a_value_comes_from_the_nearest_source_and_keeps_its_origin() -> None:
    own = {"queue": {"name": "a", "slots": 2, "labels": {"x": 1, "y": 1}}}
    found = joined(own, {"QUEUE": "b", "SLOTS": "3"}, slots=4, labels={"y": 2})
    assert found.values == {"name": "b", "slots": 4, "labels": {"x": 1, "y": 2}}
    profile_ = "cluster 'c' in llmbx.toml"
    assert found.origins == {
        "name": "QUEUE", "slots": "--queue-slots", "labels.x": profile_, "labels.y": "--label"
    }  # fmt: skip


def test_the_first_variable_that_is_set_counts() -> None:
    assert joined(None, {"OLD_QUEUE": "old", "QUEUE": "new"}).values == {"name": "new"}
    assert joined(None, {"OLD_QUEUE": "old", "QUEUE": " "}).values == {"name": "old"}
    assert joined(None, {"EAGER": "yes"}).values == {"eager": True}


def test_keys_of_a_plugin_may_stand_in_the_clusters_own_table() -> None:
    assert joined({"slots": 2, "queue": {"name": "a"}}).values == {"slots": 2, "name": "a"}


def test_the_table_of_a_framework_may_also_have_keys_of_set() -> None:
    of_cluster = profile(queue={"slots": 2, "rate": 0.1}, other={"rate": 1})
    assert join(QueueSettings, of_cluster, {}, {}, set_keys=("rate",)).values == {"slots": 2}
    check_keys({"queue": QueueSettings}, of_cluster, {"queue": {"rate"}, "other": {"rate"}})
    with pytest.raises(UsageError, match=r"at clusters.c.other: unknown key 'rate' \(did you mean 'rates'\?\)"):
        check_keys({"queue": QueueSettings}, of_cluster, {"queue": {"rate"}, "other": {"rates"}})


@pytest.mark.parametrize(
    ("own", "environ", "options", "says"),
    [
        (
            {"queue": {"slotz": 1}},
            {},
            {},
            r"llmbx.toml: at clusters.c.queue: unknown key 'slotz' \(did you mean 'slots'\?\)",
        ),
        ({"queue": {"slots": "two"}}, {}, {}, "llmbx.toml: at clusters.c.queue: at slots: expected an integer"),
        ({"queue": 3}, {}, {}, "llmbx.toml: at clusters.c.queue: expected a table, got 3"),
        ({}, {"SLOTS": "two"}, {}, "SLOTS='two': expected an integer"),
        ({}, {"ORDER": "lost"}, {}, "ORDER='lost': expected first or last"),
        ({}, {"PATIENCE": "-1"}, {}, "PATIENCE='-1': at patience: expected an integer >= 0"),
        (
            {"queue": {"order": "lost"}},
            {},
            {},
            r"clusters.c.queue: at order: unknown value 'lost' \(did you mean 'last'\?\)",
        ),
        ({"queue": {"patience": -1}}, {}, {}, "clusters.c.queue: at patience: expected an integer >= 0"),
        ({}, {"EAGER": "perhaps"}, {}, "EAGER='perhaps': expected true or false"),
        ({}, {}, {"slotz": 1}, "settings of queue: unknown key 'slotz'"),
        ({}, {}, {"patience": -1}, "^--queue-patience -1: expected an integer >= 0"),
    ],
)
def test_errors_name_their_place(
    own: dict[str, Any], environ: dict[str, str], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        joined(own, environ, **options)


class OtherSettings(Settings, frozen=True):
    plugin: ClassVar[str] = "other"
    slots: Annotated[int | None, Option(help="Slots of another plugin.")] = None


def test_a_key_that_no_plugin_or_more_than_one_has_is_refused() -> None:
    kinds = {"queue": QueueSettings, "other": OtherSettings}
    check_keys(kinds, profile(name="a", other={"slots": 1}))
    with pytest.raises(UsageError, match=r"at clusters.c: unknown key 'nam' \(did you mean 'name'\?\)"):
        check_keys(kinds, profile(nam="a"))
    with pytest.raises(UsageError, match=r"the key 'slots' belongs in \[clusters.c.queue\] or \[clusters.c.other\]"):
        check_keys(kinds, profile(slots=1))


def test_a_run_stores_explicit_settings(make_spec: Any) -> None:
    spec: RunSpec = make_spec(plugin_settings={"queue": {"slots": 4}})
    assert settings_of(spec, QueueSettings) == QueueSettings(slots=4)
    assert settings_of(make_spec(), QueueSettings) == QueueSettings()


def test_what_is_done_now_for_an_earlier_run_follows_the_variables_of_now(make_spec: Any) -> None:
    origins = {"queue.name": "QUEUE", "queue.slots": "--queue-slots"}
    spec: RunSpec = make_spec(plugin_settings={"queue": {"name": "old", "slots": 4}}, origins=origins)
    assert current_settings(spec, QueueSettings, {}) == {"name": "old", "slots": 4}
    now = {"QUEUE": "new", "SLOTS": "8", "EAGER": "yes"}
    assert current_settings(spec, QueueSettings, now) == {"name": "new", "slots": 4, "eager": True}
    request = ImageRequest(plugin_settings={"queue": {"slots": 4}})
    assert settings_of(request, QueueSettings) == QueueSettings(slots=4)


def test_options_have_the_plugins_name_unless_they_say_otherwise() -> None:
    assert [field.spelling for field in fields(QueueSettings)] == [
        "--queue-name", "--queue-slots", "--queue-eager", "--label", "", "--queue-order", "--queue-patience"
    ]  # fmt: skip


def test_a_class_that_cannot_be_read_is_refused() -> None:
    class Bare(Settings, frozen=True):
        size: int = 0

    class Odd(Settings, frozen=True):
        sizes: Annotated[list[int], Option(help="Sizes.")] = []

    with pytest.raises(TypeError, match=r"Bare\.size has no Option in its annotation"):
        fields(Bare)
    with pytest.raises(TypeError, match=r"Odd\.sizes: expected a bool, int, float, str, Literal or dict"):
        fields(Odd)
