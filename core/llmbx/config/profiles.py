"""Read `llmbx.toml`: cluster profiles and custom GPU types, from the user's folder and the project's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..model import Natural, Positive, Value
from ..phrases import did_you_mean

FILE = "llmbx.toml"

PROFILE_ORIGIN = "cluster '"
"""Start of the origin of every value from a cluster profile."""


class Cluster(Value, frozen=True):
    """One cluster profile: default values of every run that uses it.

    The keys of `walltime_minutes` are workload names, and `default` for all others. `env` is exported to the ranks;
    `mounts` are `source[:target][:ro]`; `setup` lines run in the job script. `plugin_keys` contains the settings of
    plugins: tables by plugin name, and single keys of such tables. They are validated when a run is resolved, because
    plugins are not loaded when the file is read.
    """

    gpu_type: str | None = None
    gpus_per_node: Positive | None = None
    launcher: str | None = None
    runtime: str | None = None
    walltime_minutes: dict[str, Positive] = {}
    retries: Natural | None = None
    env: dict[str, str] = {}
    mounts: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    plugin_keys: dict[str, Any] = {}


class Config(Value, frozen=True):
    """One `llmbx.toml`. `default_cluster` is the profile that is used unless `--cluster` names another."""

    default_cluster: str | None = None
    install: str | None = None
    clusters: dict[str, Cluster] = {}
    gpus: dict[str, dict[str, Any]] = {}

    @staticmethod
    def parse(content: bytes, path: str) -> Config:
        """Read the content of one file. Raises `UsageError` with the path and the place of an error."""
        from ..toml_file import convert, parse_toml_bytes

        return convert(with_plugin_keys(parse_toml_bytes(content, path)), Config, path)

    @staticmethod
    def user_file(environ: Mapping[str, str]) -> Path:
        """Return the path of the user's file, whether it exists or not."""
        return Path(environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "llmbx" / FILE


class Merged(Config, frozen=True):
    """All configuration files merged. `install_file` is the file that sets `install`.

    `project_file` is the project's file, if there is one; `notes` has a line for each file that was ignored.
    """

    install_file: str = ""
    project_file: str = ""
    notes: tuple[str, ...] = ()


class Profile(Value, frozen=True):
    """The selected cluster profile with its name and file."""

    name: str
    file: str
    cluster: Cluster

    @property
    def origin(self) -> str:
        """The profile as the origin of a value, as printed by `llmbx show`."""
        return f"{PROFILE_ORIGIN}{self.name}' in {self.file}"


def project_folders(environ: Mapping[str, str], cwd: Path) -> Iterator[Path]:
    """The folders that may have the project's file: `cwd` and its parents, up to the repository's root or the home."""
    home = os.path.realpath(environ["HOME"]) if environ.get("HOME") else None
    for folder in (cwd, *cwd.parents):
        yield folder
        if _is_repository(folder) or os.path.realpath(folder) == home:
            return


def _is_repository(folder: Path) -> bool:
    """Whether the folder has a `.git` of the user or root: a stranger's must not end the search."""
    try:
        status = (folder / ".git").lstat()
    except OSError:
        return False
    return status.st_uid in (os.geteuid(), 0)


class Files(Value, frozen=True):
    """The configuration files by path, the one that takes precedence last, with `project_file` and `notes` as above."""

    contents: dict[str, bytes] = {}
    project_file: str = ""
    notes: tuple[str, ...] = ()


def read_files(environ: Mapping[str, str], cwd: Path) -> Files:
    """Read the one file that `LLMBX_CONFIG` names, whoever wrote it; else the user's and the project's.

    These two are obeyed without being named, and so only if no other user can have written them (`trusted`). The
    project's is the nearest one to `cwd` that may be obeyed. Raises `UsageError`.
    """
    from ..toml_file import LARGEST
    from .trusted import read_trusted

    if named := environ.get("LLMBX_CONFIG"):
        try:
            with Path(named).open("rb") as stream:
                return Files(contents={named: stream.read(LARGEST + 1)})
        except OSError as error:
            raise UsageError(f"{named}: cannot be read: {error.strerror}") from None
    contents, notes, project = {}, [], ""
    user = Config.user_file(environ)
    for path in (user, *(folder / FILE for folder in project_folders(environ, cwd))):
        file = read_trusted(path, LARGEST + 1)
        notes += [f"{file.note}, or name it in LLMBX_CONFIG"] if file.note else []
        if file.content is not None:
            contents[str(path)] = file.content
            if path != user:
                project = str(path)
                break
    return Files(contents=contents, project_file=project, notes=tuple(notes))


def load_config(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> tuple[Merged, dict[str, str]]:
    """Read and merge all configuration files; returns the configuration and the file of each cluster.

    A cluster of the project's file replaces the user's cluster of the same name. Raises `UsageError` with file and
    place of an error.
    """
    files = read_files(os.environ if environ is None else environ, cwd or _here())
    merged, origins = Merged(project_file=files.project_file, notes=files.notes), {}
    for path, content in files.contents.items():
        config = Config.parse(content, path)
        origins.update(dict.fromkeys(config.clusters, path))
        merged = merged.replace(
            default_cluster=config.default_cluster or merged.default_cluster,
            install=config.install or merged.install,
            install_file=path if config.install else merged.install_file,
            clusters={**merged.clusters, **config.clusters},
            gpus={**merged.gpus, **config.gpus},
        )
    return merged, origins


def with_plugin_keys(data: dict[str, Any]) -> dict[str, Any]:
    """Move the keys of each cluster that core does not know into `plugin_keys`."""
    clusters = data.get("clusters")
    if not isinstance(clusters, dict):
        return data
    own = {*Cluster.__struct_fields__} - {"plugin_keys"}
    split = {
        name: {
            **{key: value for key, value in table.items() if key in own},
            "plugin_keys": {key: value for key, value in table.items() if key not in own},
        }
        if isinstance(table, dict)
        else table
        for name, table in clusters.items()
    }
    return {**data, "clusters": split}


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current folder does not exist any more: change to another one") from None


def choose_profile(config: Config, origins: Mapping[str, str], requested: str | None) -> Profile | None:
    """The requested profile, else the default one, else None. Raises `UsageError` for an unknown name."""
    name = requested or config.default_cluster
    if name is None:
        return None
    if name not in config.clusters:
        where = "--cluster" if requested else "default_cluster"
        hint = did_you_mean(name, config.clusters) or f"; no {FILE} defines a cluster"
        raise UsageError(f"{where}: no cluster named '{name}'{hint}")
    return Profile(name=name, file=origins[name], cluster=config.clusters[name])
