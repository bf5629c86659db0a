"""The ground a turn stands on: the configuration, the files, the meters, and what is remembered."""

from collections.abc import Callable, Mapping
from dataclasses import field
from threading import Lock

from foreword.blueprint import Blueprint
from foreword.blueprint.guard import FileGuard
from foreword.blueprint.hook import Hook
from foreword.config.schema import Config
from foreword.frozen import frozen
from foreword.memo import Memo
from foreword.sources.archived import Archived, keep_no_archive
from foreword.sources.character import Character, keep_nothing
from foreword.sources.files import Files
from foreword.sources.passage import Recall
from foreword.sources.text_files import TextFiles
from foreword.tokens import Meter


@frozen
class Ground:
    """Everything beneath a turn that outlives it; replaced as a whole when the configuration changes."""

    config: Config
    files: Files | TextFiles
    measure: Callable[[str], Meter]
    hooks: Mapping[str, Hook] = field(default_factory=dict)
    characters: Callable[[str], Character] = keep_nothing
    """Tells what is kept of an agent now; the same answer is the same object, so that nothing is made anew for it."""
    archives: Callable[[str], Archived | None] = keep_no_archive
    """Tells whose transcript a file is."""
    memories: Recall | None = None
    """What a turn recalls from, where its prompt mode or the configuration wants that."""
    memo: Memo = field(default_factory=Memo)
    scratch: Memo = field(default_factory=lambda: Memo(65_536))
    lock: Lock = field(default_factory=Lock)
    """Held while files are read, so that two threads cannot mix their traces."""

    def guard(self, blueprint: Blueprint) -> FileGuard:
        """Return the guard of the files under a blueprint."""
        return self.memo.recall(("guard", blueprint), lambda: FileGuard(blueprint, self.config))
