"""Files that are obeyed without being named: what the user can fix is an error, what only others can is ignored."""

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from llmbx.config.profiles import load_config
from llmbx.config.trusted import read_trusted
from llmbx.errors import UsageError
from llmbx.plugins import local_sources
from llmbx.run_files import user_name


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A profile that may be obeyed."""
    path = tmp_path / "project" / "llmbx.toml"
    path.parent.mkdir()
    path.parent.chmod(0o755)
    path.write_text('default_cluster = "x"\n')
    path.chmod(0o644)
    return path


def test_a_file_of_mine_is_read(file: Path) -> None:
    assert read_trusted(file, 1 << 20).content == b'default_cluster = "x"\n'
    file.chmod(0o660)
    assert read_trusted(file, 1 << 20).content is not None or os.getegid() != os.geteuid(), "my own group may write"
    assert read_trusted(file.with_name("absent"), 1 << 20).content is None
    assert read_trusted(file.parent / "no folder" / "absent", 1 << 20) == read_trusted(
        file.with_name("absent"), 1 << 20
    )


@pytest.mark.parametrize(
    ("what", "mode", "says"),
    [("file", 0o646, "chmod o-w"), ("folder", 0o757, "chmod o-w"), ("folder", 0o777, "chmod")],
)
def test_what_i_can_mend_is_an_error(file: Path, what: str, mode: int, says: str) -> None:
    path = file if what == "file" else file.parent
    path.chmod(mode)
    with pytest.raises(UsageError) as error:
        read_trusted(file, 1 << 20)
    assert str(file) in str(error.value) and f"{mode:04o}" in str(error.value) and f"{says}" in str(error.value)
    assert str(error.value).endswith(str(path))


@pytest.mark.parametrize(
    ("group", "members", "is_own"),
    [("ME", [], True), ("ME", ["ME"], True), ("ME", ["another"], False), ("users", [], False)],
)
def test_my_group_may_write_only_if_nobody_else_is_in_it(
    file: Path, group: str, members: list[str], is_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On many clusters all users have one primary group."""
    me = user_name(os.geteuid())
    names = [name.replace("ME", me) for name in (group, *members)]
    entry = grp.struct_group((names[0], "x", os.getegid(), names[1:]))
    monkeypatch.setattr(grp, "getgrgid", lambda number: entry)
    file.chmod(0o664)
    if is_own:
        assert read_trusted(file, 1 << 20).content == file.read_bytes()
        return
    with pytest.raises(UsageError) as error:
        read_trusted(file, 1 << 20)
    assert str(error.value) == f"{file}: it is writable by group {names[0]} (mode 0664): chmod g-w {file}"


def test_a_file_of_mine_in_a_folder_that_all_share_is_ignored(file: Path) -> None:
    """Another user may have linked it there, so it is no error."""
    file.parent.chmod(0o1777)
    found = read_trusted(file, 1 << 20)
    assert found.content is None and found.note is not None and "1777" in found.note


def test_a_link_is_as_good_as_its_target_and_its_own_folder(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "links" / "llmbx.toml"
    link.parent.mkdir()
    link.symlink_to(file)
    assert read_trusted(link, 1 << 20).content == file.read_bytes()
    file.chmod(0o666)
    with pytest.raises(UsageError, match="chmod"):
        read_trusted(link, 1 << 20)
    file.chmod(0o644)
    link.parent.chmod(0o1777)
    assert read_trusted(link, 1 << 20).content is None
    link.parent.chmod(0o755)
    link.unlink()
    link.symlink_to(link)
    assert read_trusted(link, 1 << 20).content is None, "a link to itself"


def test_what_is_no_file_is_not_opened(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)
    assert read_trusted(file, 1 << 20).content is None, "a pipe without a writer would wait for ever"
    file.unlink()
    file.mkdir()
    assert read_trusted(file, 1 << 20).content is None


def test_the_search_ends_at_the_root_of_the_repository_and_at_the_home(tmp_path: Path) -> None:
    (tmp_path / "llmbx.toml").write_text('default_cluster = "outer"\n')
    inner = tmp_path / "home" / "code" / "package"
    inner.mkdir(parents=True)
    (tmp_path / "config").mkdir()
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    config, _ = load_config(environ, inner)
    assert (config.default_cluster, config.project_file) == ("outer", str(tmp_path / "llmbx.toml"))
    assert load_config({**environ, "HOME": str(tmp_path / "home")}, inner)[0].default_cluster is None
    (tmp_path / "home" / "llmbx.toml").write_text('default_cluster = "home"\n')
    assert load_config({**environ, "HOME": str(tmp_path / "home")}, inner)[0].default_cluster == "home"
    (inner.parent / ".git").mkdir()
    assert load_config(environ, inner)[0].default_cluster is None
    (inner.parent / "llmbx.toml").write_text('default_cluster = "root"\n')
    assert load_config(environ, inner)[0].default_cluster == "root"


def test_a_file_that_is_named_is_read_wherever_it_is(file: Path) -> None:
    file.chmod(0o666)
    config, _ = load_config({"LLMBX_CONFIG": str(file)}, file.parent)
    assert (config.default_cluster, config.project_file) == ("x", "")


def test_the_list_of_plugins_is_such_a_file(tmp_path: Path) -> None:
    path = tmp_path / "llmbx" / "plugins.txt"
    path.parent.mkdir()
    path.write_text("/mine\n")
    path.chmod(0o644)
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert local_sources.enabled(environ) == ["/mine"]
    path.chmod(0o666)
    with pytest.raises(UsageError, match=r"plugins\.txt: it is writable by all users"):
        local_sources.enabled(environ)
