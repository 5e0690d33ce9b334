"""files: what is written is what is read, and the tree looks as it should."""

import hashlib
import os

import pytest
import web
from e2b import FileNotFoundException, FileType, InvalidArgumentException


@pytest.fixture
def folder(sandbox, request):
    """An empty directory of the test's own."""
    path = f"/home/user/{request.node.name.split('[')[0]}"
    sandbox.files.make_dir(path)
    yield path
    sandbox.files.remove(path)


def test_write_tells_what_it_wrote(sandbox, folder):
    info = sandbox.files.write(f"{folder}/a.txt", "text")
    assert (info.name, info.path, info.type) == ("a.txt", f"{folder}/a.txt", FileType.FILE)
    assert sandbox.files.read(f"{folder}/a.txt") == "text"


def test_overwriting_shortens(sandbox, folder):
    sandbox.files.write(f"{folder}/a", "a longer text")
    sandbox.files.write(f"{folder}/a", "short")
    assert sandbox.files.read(f"{folder}/a") == "short"


def test_an_empty_file(sandbox, folder):
    sandbox.files.write(f"{folder}/empty", "")
    assert sandbox.files.read(f"{folder}/empty") == ""
    assert sandbox.files.read(f"{folder}/empty", format="bytes") == b""
    assert sandbox.files.get_info(f"{folder}/empty").size == 0


def test_every_byte_value(sandbox, folder):
    data = bytes(range(256)) * 17
    sandbox.files.write(f"{folder}/binary", data)
    assert sandbox.files.read(f"{folder}/binary", format="bytes") == data


@pytest.mark.parametrize("octets", [False, True], ids=["multipart", "octet-stream"])
def test_fifty_megabytes(sandbox, folder, octets):
    data = os.urandom(1 << 20) * 50
    digest = hashlib.sha256(data).hexdigest()
    sandbox.files.write(f"{folder}/big", data, use_octet_stream=octets)
    assert sandbox.commands.run(f"sha256sum < {folder}/big").stdout.split()[0] == digest

    read = hashlib.sha256()
    for part in sandbox.files.read(f"{folder}/big", format="stream"):
        read.update(part)
    assert read.hexdigest() == digest


def test_gzip_both_ways(sandbox, folder):
    text = "compress me " * 10000
    sandbox.files.write(f"{folder}/text", text, gzip=True)
    assert sandbox.commands.run(f"wc -c < {folder}/text").stdout == f"{len(text)}\n"
    assert sandbox.files.read(f"{folder}/text", gzip=True) == text


@pytest.mark.parametrize(
    "name",
    [
        "with space",
        "\u6d77\u6e7e.txt",
        "\U0001f41f",
        "quote'\"`$(x)",
        "a+b&c=d?e#f%20",
        "new\nline",
        "-rf",
        "n" * 255,
    ],
    ids=["space", "cjk", "emoji", "shell", "url", "newline", "dash", "longest"],
)
def test_odd_names(sandbox, folder, name):
    path = f"{folder}/{name}"
    sandbox.files.write(path, name)
    assert sandbox.files.read(path) == name
    assert [entry.name for entry in sandbox.files.list(folder)] == [name]
    assert sandbox.files.exists(path)
    sandbox.files.remove(path)
    assert not sandbox.files.exists(path)


def test_a_name_that_is_too_long(sandbox, folder):
    with pytest.raises(Exception, match="long"):
        sandbox.files.write(f"{folder}/{'n' * 256}", "x")
    assert sandbox.files.list(folder) == []


def test_many_files_in_one_call(sandbox, folder):
    entries = [{"path": f"{folder}/sub/{i}.txt", "data": f"file {i}"} for i in range(20)]
    infos = sandbox.files.write_files(entries)
    assert [info.path for info in infos] == [entry["path"] for entry in entries]
    for entry in entries:
        assert sandbox.files.read(entry["path"]) == entry["data"]


def test_relative_and_home_paths(sandbox):
    for path in ("relative.txt", "~/home.txt"):
        info = sandbox.files.write(path, "x")
        assert info.path == "/home/user/" + path.removeprefix("~/")
        sandbox.files.remove(path)


def test_files_belong_to_their_writer(sandbox, folder):
    sandbox.files.write(f"{folder}/mine", "x")
    sandbox.files.write(f"{folder}/roots", "x", user="root")
    assert sandbox.files.get_info(f"{folder}/mine").owner == "user"
    assert sandbox.files.get_info(f"{folder}/roots").owner == "root"


def test_missing_parents_are_made(sandbox, folder):
    sandbox.files.write(f"{folder}/a/b/c.txt", "deep")
    info = sandbox.files.get_info(f"{folder}/a/b")
    assert (info.type, info.owner, info.permissions) == (FileType.DIR, "user", "drwxr-xr-x")


def test_info(sandbox, folder):
    sandbox.files.write(f"{folder}/f", "12345")
    info = sandbox.files.get_info(f"{folder}/f")
    assert (info.name, info.path, info.type) == ("f", f"{folder}/f", FileType.FILE)
    assert (info.size, info.mode, info.permissions) == (5, 0o644, "-rw-r--r--")
    assert (info.owner, info.group, info.symlink_target) == ("user", "user", None)
    epoch = sandbox.commands.run(f"stat -c %Y {folder}/f").stdout
    assert int(info.modified_time.timestamp()) == int(epoch)


def test_info_of_an_empty_directory(sandbox, folder):
    info = sandbox.files.get_info(folder)
    assert (info.type, info.permissions) == (FileType.DIR, "drwxr-xr-x")
    assert info.size > 0


def test_info_of_a_link(sandbox, folder):
    sandbox.files.write(f"{folder}/f", "12345")
    sandbox.commands.run(f"ln -s f {folder}/link")
    info = sandbox.files.get_info(f"{folder}/link")
    assert (info.name, info.type, info.symlink_target) == ("link", FileType.SYMLINK, f"{folder}/f")
    assert sandbox.files.read(f"{folder}/link") == "12345"


def test_list_is_sorted_and_as_deep_as_asked(sandbox, folder):
    for path in ("b/inner/leaf", "a", "c"):
        sandbox.files.write(f"{folder}/{path}", "x")

    def names(depth):
        return [
            entry.path.removeprefix(f"{folder}/") for entry in sandbox.files.list(folder, depth)
        ]

    assert names(1) == ["a", "b", "c"]
    assert names(2) == ["a", "b", "b/inner", "c"]
    assert names(3) == ["a", "b", "b/inner", "b/inner/leaf", "c"]


def test_list_of_a_thousand(sandbox, folder):
    sandbox.commands.run(f"cd {folder} && touch $(seq -w 0 999)")
    assert [e.name for e in sandbox.files.list(folder)] == [f"{i:03}" for i in range(1000)]


def test_make_dir(sandbox, folder):
    assert sandbox.files.make_dir(f"{folder}/x/y") is True
    assert sandbox.files.make_dir(f"{folder}/x/y") is False
    assert sandbox.files.get_info(f"{folder}/x/y").type == FileType.DIR


def test_make_dir_over_a_file(sandbox, folder):
    sandbox.files.write(f"{folder}/f", "x")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.make_dir(f"{folder}/f")
    assert sandbox.files.read(f"{folder}/f") == "x"


def test_rename(sandbox, folder):
    sandbox.files.write(f"{folder}/old", "x")
    info = sandbox.files.rename(f"{folder}/old", f"{folder}/new/place")
    assert (info.name, info.path) == ("place", f"{folder}/new/place")
    assert not sandbox.files.exists(f"{folder}/old")
    assert sandbox.files.read(f"{folder}/new/place") == "x"


def test_remove_takes_the_whole_tree(sandbox, folder):
    sandbox.files.write(f"{folder}/tree/a/b", "x")
    sandbox.files.remove(f"{folder}/tree")
    assert not sandbox.files.exists(f"{folder}/tree")


def test_remove_takes_a_link_and_not_its_target(sandbox, folder):
    sandbox.files.write(f"{folder}/kept/f", "x")
    sandbox.commands.run(f"ln -s {folder}/kept {folder}/link")
    sandbox.files.remove(f"{folder}/link")
    assert not sandbox.files.exists(f"{folder}/link")
    assert sandbox.files.read(f"{folder}/kept/f") == "x"


def test_what_is_not_there(sandbox, folder):
    missing = f"{folder}/missing"
    assert sandbox.files.exists(missing) is False
    sandbox.files.remove(missing)
    for call in (sandbox.files.read, sandbox.files.get_info, sandbox.files.list):
        with pytest.raises(FileNotFoundException, match="missing"):
            call(missing)
    with pytest.raises(FileNotFoundException):
        sandbox.files.rename(missing, f"{folder}/other")


def test_a_directory_is_not_a_file_and_the_reverse(sandbox, folder):
    with pytest.raises(InvalidArgumentException):
        sandbox.files.read(folder)
    with pytest.raises(InvalidArgumentException):
        sandbox.files.write(folder, "x")
    sandbox.files.write(f"{folder}/f", "x")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.list(f"{folder}/f")


def test_files_of_proc_are_read_to_their_end(sandbox):
    boot_id = sandbox.files.read("/proc/sys/kernel/random/boot_id")
    assert len(boot_id.strip()) == 36


@pytest.mark.parametrize("agent, reduced", [("connect-python", True), ("e2b-python-sdk/2.63.0", False)])
def test_python_sdks_before_1_8_get_the_first_fields_alone(sandbox, folder, agent, reduced):
    """Those up to 1.5.2 refuse an answer that has a field they do not know."""
    sandbox.files.write(f"{folder}/f", "12345")
    with web.agent(sandbox) as client:
        client.headers["User-Agent"] = agent
        listed = client.post("/filesystem.Filesystem/ListDir", json={"path": folder}).json()["entries"]
        stat = client.post("/filesystem.Filesystem/Stat", json={"path": f"{folder}/f"}).json()["entry"]
    for entry in (*listed, stat):
        assert (set(entry) == {"name", "type", "path"}) is reduced, entry


def test_a_link_says_that_it_is_one(sandbox, folder):
    sandbox.commands.run(f"ln -s /tmp {folder}/link")
    with web.agent(sandbox) as client:
        entry = client.post("/filesystem.Filesystem/Stat", json={"path": f"{folder}/link"}).json()["entry"]
    assert (entry["isSymlink"], entry["type"]) == (True, "FILE_TYPE_DIRECTORY")
