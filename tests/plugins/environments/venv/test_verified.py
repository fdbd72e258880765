"""Requirements with digests, and what installers say of a file with another one."""

from __future__ import annotations

from importlib import resources

import pytest

from llmbx.api import Environment, load_environment
from llmbx.catalog.environments import unverified
from llmbx_environments.venv.verified import has_file, mismatch, requirements_text
from llmbx_nemo.image_versions import ImageVersions, image_versions, overlay

DIGESTS = tuple(f"sha256:{letter * 64}" for letter in "abc")
TOY = Environment(
    name="toy",
    pythons=("3.11",),
    steps=(("alpha==1.0", "Beta_X==2.0"),),
    files={
        "alpha-1.0-cp311-cp311-manylinux_2_28_x86_64.whl": DIGESTS[1],
        "alpha-1.0-cp311-cp311-manylinux_2_28_aarch64.whl": DIGESTS[0],
        "beta_x-2.0-py3-none-any.whl": DIGESTS[2],
    },
)
SHIPPED = ("nemo/megatron-bridge-cpu", "nemo/nemo2-cpu", "maxtext/maxtext-cpu")


def test_a_requirement_has_the_digest_of_each_of_its_files_and_matches_no_other_build() -> None:
    assert requirements_text(TOY, ["alpha==1.0", "Beta_X==2.0"]) == (
        f"alpha===1.0 --hash={DIGESTS[0]} --hash={DIGESTS[1]}\nBeta_X===2.0 --hash={DIGESTS[2]}\n"
    )


@pytest.mark.parametrize(
    ("name", "minor", "machine", "fits"),
    [
        ("alpha-1.0-py3-none-any.whl", "3.11", "x86_64", True),
        ("alpha-1.0-py2.py3-none-any.whl", "3.13", "aarch64", True),
        ("alpha-1.0-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", "3.11", "x86_64", True),
        ("alpha-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", "3.11", "aarch64", False),
        ("alpha-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", "3.12", "x86_64", False),
        ("alpha-1.0-cp38-abi3-manylinux_2_28_x86_64.whl", "3.12", "x86_64", True),
        ("alpha-1.0.tar.gz", "3.12", "riscv64", True),
    ],
)
def test_a_file_is_for_a_python_and_a_machine(name: str, minor: str, machine: str, fits: bool) -> None:
    assert has_file(TOY.replace(files={name: DIGESTS[0]}), "alpha==1.0", minor, machine) is fits


UV = f"""\
Resolved 2 packages in 2ms
error: Failed to download `beta-x==2.0`
  cause: Hash mismatch for `beta-x==2.0`

         Expected:
           {DIGESTS[2]}

         Computed:
           sha256:{"d" * 64}
"""
PIP = f"""\
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, ...
    beta-x===2.0 from file:///w/beta_x-2.0-py3-none-any.whl (from -r r.txt (line 1)):
        Expected sha256 {"c" * 64}
             Got        {"d" * 64}
"""


@pytest.mark.parametrize("text", [UV, PIP])
def test_a_refused_file_is_named_with_both_digests(text: str) -> None:
    said = mismatch(text.splitlines(), TOY)
    assert said is not None and "beta-x==2.0" in said
    assert f"its digest is sha256:{'d' * 64}, the lock has {DIGESTS[2]}" in said
    assert mismatch(["ERROR: No matching distribution found for gamma==1.0"], TOY) is None


@pytest.mark.parametrize("lock", SHIPPED)
def test_the_shipped_locks_have_a_digest_of_every_package_and_resolve_nothing(lock: str) -> None:
    plugin, _, name = lock.partition("/")
    environment = load_environment(resources.files(f"llmbx_{plugin}") / "environments" / f"{name}.toml")
    assert unverified(environment) is None
    assert environment.no_deps == tuple(range(len(environment.steps))), "a dependency without a digest would be refused"
    for minor in environment.pythons:
        for requirement in (pin for step in environment.steps for pin in step):
            for build, _ in environment.variants.get(requirement, ((requirement, None),)):
                assert has_file(environment, build, minor, "x86_64"), (minor, build)
    archives = [file for file in environment.files if not file.endswith(".whl")]
    assert not archives or environment.steps[0][0].startswith("setuptools=="), "what builds archives is installed first"


@pytest.mark.parametrize("versions", image_versions(), ids=lambda versions: versions.tag)
def test_the_versions_of_images_have_digests(versions: ImageVersions) -> None:
    environment = overlay(versions)
    assert unverified(environment) is None
    (minor,) = environment.pythons
    for pin in versions.packages:
        assert has_file(environment, pin, minor, "x86_64"), pin
