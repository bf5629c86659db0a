"""Claims about the path of a turn through the tree."""

import os
import sys
import threading

from served import serve_workspace

import foreword
from foreword.testing import ScriptedReply

MAX_FILES = 90
SOURCE = os.path.dirname(os.path.abspath(foreword.__file__))


def test_files_of_a_warm_turn(tmp_path):
    """A warm HTTP turn runs code of at most `MAX_FILES` of our files; the next restructuring lowers the number."""
    files, recording = set(), threading.Event()

    def record(frame, event, _argument):
        if event == "call" and recording.is_set():
            files.add(frame.f_code.co_filename)

    threading.setprofile(record)
    try:
        replies = [ScriptedReply(text=text) for text in ("One.", "Two.", "Three.")]
        with serve_workspace(tmp_path, *replies) as served, served.ask_as() as client:
            for text in ("first", "second"):
                assert client.post("/api/turns", json={"text": text}).status_code == 200
            recording.set()
            assert client.post("/api/turns", json={"text": "third"}).json()["reply"] == "Three."
            served.gateway.listeners.recorder.flush(60)
            recording.clear()
    finally:
        threading.setprofile(None)
        sys.setprofile(None)
    # The fake provider answers from the same process.
    ours = {os.path.relpath(file, SOURCE) for file in files if file.startswith(SOURCE)}
    ours = sorted(file for file in ours if not file.startswith("testing"))
    assert "assemble.py" in ours
    assert len(ours) <= MAX_FILES, "\n".join(ours)
