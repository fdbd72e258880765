#!/bin/sh
# usage: tests/release.sh PYTHON WHEEL      install the wheel in an empty environment and load every entry point
set -eu
python=$1 wheel=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel"
cd "$folder"
"$folder/venv/bin/python" - << 'END'
import importlib.metadata as metadata
from importlib import resources

dist = metadata.distribution("llmbx")
points = [point for point in dist.entry_points]
for point in points:
    point.load()
packages = sorted({point.module.partition(".")[0] for point in points})
assert all((resources.files(package) / "py.typed").is_file() for package in packages), packages
assert any(str(path).endswith("licenses/LICENSE") for path in dist.files or ()), "no license in the wheel"
tag = next(line for line in (dist.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: "))
from llmbx_nccltrace import native_engine
assert not tag.endswith("-any"), "the wheel has no C scanner: build it on a machine with gcc or clang"
assert native_engine.load(), f"the C scanner does not load ({tag})"
from llmbx_containers.images.definition import dockerfile
assert dockerfile("gpu", "registry.example.com/image:1"), "no Dockerfile in the wheel"
print(f"llmbx {dist.version}: {len(points)} entry points of {len(packages)} packages load; {tag}")
END
"$folder/venv/bin/llmbx" --version
