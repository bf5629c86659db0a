"""Claims about the index."""

import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from foreword.engine.sources.files import REFRESH_INTERVAL_S, Files
from foreword.engine.trust import Audience
from foreword.memory.chunk import split
from foreword.memory.index import COMMON_WORD_CHUNKS, FILE, GAP_ROWS, Index
from foreword.testing import make_workspace, write_files
from foreword.types import Trust


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """An index with a document in each of two stores."""
    index = Index(str(tmp_path))
    put(index, "social", "a.md", "Bob likes trains.\n\nHe paints.")
    put(index, "private", "b.md", "The secret is out.")
    yield index
    index.close()


def put(index: Index, store: str, path: str, body: str) -> None:
    """Index a text."""
    with index.writing():
        index.put(store, path, ("1", body), split(body))


def count(index: Index, store: str, word: str) -> int:
    """Count the chunks of a store that have a word."""
    return index.frequencies(store, [word])[word]


def test_stores_are_apart(index: Index) -> None:
    """Each store has separate tables: words of one do not count in another."""
    assert (count(index, "private", "secret"), count(index, "social", "secret")) == (1, 0)
    assert (index.figures("private").chunks, index.figures("social").chunks) == (1, 2)


def test_cleared_by_another(index: Index, tmp_path: Path) -> None:
    """After another process has cleared the file and filled it in another order, a store is still that store."""
    index.figures("social")
    other = Index(str(tmp_path))
    other.clear()
    other.close()
    again = Index(str(tmp_path))
    put(again, "private", "b.md", "The secret is out.")
    put(again, "social", "a.md", "Bob likes trains.")
    again.close()
    assert count(index, "social", "secret") == 0
    assert count(index, "social", "train") == 1


def test_common_words(index: Index, tmp_path: Path) -> None:
    """The count of a common word is that of the current store, regardless of the process that changes it."""
    put(index, "social", "c.md", "\n\n".join(["train"] * COMMON_WORD_CHUNKS))
    assert [count(index, "social", "train") for _ in "ab"] == [COMMON_WORD_CHUNKS + 1] * 2
    other = Index(str(tmp_path))
    put(other, "social", "d.md", "One more train.")
    assert count(index, "social", "train") == COMMON_WORD_CHUNKS + 2
    other.clear()
    other.close()
    again = Index(str(tmp_path))
    put(again, "social", "a.md", "Bob likes trains.")
    put(again, "social", "b.md", "Bob paints.")
    put(again, "social", "c.md", "Bob sings.")
    again.close()
    assert (count(index, "social", "train"), index.figures("social").chunks) == (1, 3)


def test_neighbours(index: Index) -> None:
    """Rows of two documents are never near each other."""
    put(index, "social", "c.md", "More.")
    first, second = index.figures("social").starts
    assert second - first >= GAP_ROWS + 1


def test_put_again(index: Index) -> None:
    """A document that is put again is there once, in its current form."""
    put(index, "social", "a.md", "Bob likes boats.")
    assert (count(index, "social", "train"), count(index, "social", "boat")) == (0, 1)
    assert (index.figures("social").chunks, index.figures("social").words) == (1, 3)
    with index.writing():
        index.drop("social", "a.md")
        index.drop("social", "never.md")
    assert (index.figures("social").chunks, index.figures("social").words, dict(index.stamps("social"))) == (0, 0, {})


def test_all_or_nothing(index: Index) -> None:
    """A failed write leaves no trace."""

    def fail() -> None:
        with index.writing():
            index.put("social", "d.md", ("1", "1"), split("Half of it."))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert "d.md" not in index.stamps("social")
    assert count(index, "social", "half") == 0


def test_another_version(index: Index, tmp_path: Path) -> None:
    """An index of another version is rebuilt."""
    index._base.execute("PRAGMA user_version=99")
    again = Index(str(tmp_path))
    assert dict(again.stamps("social")) == {}
    again.close()


@pytest.mark.parametrize("text", ["", '"', "a AND b", "NEAR(", "\0", "🙂", "*", "col:x", "'; DROP TABLE stores"])
def test_stems(index: Index, text: str) -> None:
    """Any text is a list of words, possibly empty; nothing in it is an operator."""
    assert all(isinstance(word, str) for word in index.stem(text))
    assert index.stem("Running trains") == ("run", "train")


def test_store_names(index: Index) -> None:
    """Any name of a store is fine, and two names are two stores."""
    for name in ("a-b", "a_b", "A_B", "a.b", "select"):
        put(index, name, "x.md", f"only{name.encode().hex()}")
    assert all(index.figures(name).chunks == 1 for name in ("a-b", "a_b", "A_B", "a.b", "select"))
    assert count(index, "a-b", f"only{b'a-b'.hex()}") == 1


def test_for_nobody_else(tmp_path: Path) -> None:
    """Only its owner may read the file: it holds the words of every store."""
    Index(str(tmp_path)).close()
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_authors_come_and_go(index: Index) -> None:
    """A person who speaks in no remaining document is no author, however the last document was removed."""
    with index.writing():
        index.put("talk", "a.md", ("1", "1"), split("Ann: a\n\nBen: b\n\nAnn: c"))
        index.put("talk", "b.md", ("1", "2"), split("Ann: a\n\nDan: b\n\nAnn: c"))
    assert sorted(index.figures("talk").authors) == ["Ann", "Ben", "Dan"]
    with index.writing():
        index.drop("talk", "a.md")
    assert sorted(index.figures("talk").authors) == ["Ann", "Dan"]
    with index.writing():
        index.put("talk", "b.md", ("2", "3"), split("Nobody here."))
    assert index.figures("talk").authors == ()


def test_another_process_indexes(tmp_path: Path) -> None:
    """A search waits while another process indexes, and does not index the same text again."""
    path, owner = "memory/social/a.md", Audience(clearance=Trust.FULL)
    with make_workspace(tmp_path, {path: "Bob paints."}) as ws, ThreadPoolExecutor(1) as pool:
        assert ws.memory.search("paints", owner)
        write_files(tmp_path, {path: "Bob likes trains."})
        time.sleep(2 * REFRESH_INTERVAL_S)
        other = Index(ws.memory.folder)
        with other.writing():
            search = pool.submit(ws.memory.search, "trains", owner)
            time.sleep(REFRESH_INTERVAL_S)
            sha256 = Files(str(tmp_path)).read(path).sha256
            other.put("social", path, ("", sha256), split("Bob likes trains, as the other process read it."))
            assert not search.done()
        assert [hit.text for hit in search.result()] == ["Bob likes trains, as the other process read it."]
        other.close()
