"""What a killed process leaves behind is removed by the next, and never what a running one is writing."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from steelyard.whole_file import Drafts, draft_of, remove_stale_drafts

if TYPE_CHECKING:
    from pathlib import Path

WRITER = """
import sys
from pathlib import Path
from steelyard.whole_file import Drafts, draft_of
target = Path(sys.argv[1])
with draft_of(target) as draft:
    draft.write_text("half")
    drafts = Drafts([target.parent])
    drafts.draft(target).write_text("half of another")
    folder = drafts.draft(target.with_name("robots"))
    folder.mkdir()
    (folder / "one").write_text("half")
    print("ready", flush=True)
    sys.stdin.read()
"""

REPLACER = """
import os, signal, sys
from pathlib import Path
from steelyard.whole_file import Drafts
folder = Path(sys.argv[1])
drafts = Drafts([folder])
for name in "ab":
    drafts.draft(folder / name).write_text(f"new {name}")
    (folder / name).replace(drafts.backup(folder / name))
drafts.draft(folder / "a").replace(folder / "a")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def writer(tmp_path):
    """A process that is writing, as far as its drafts."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "a.txt")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.communicate()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_drafts_of_a_killed_process_are_removed_by_the_next(tmp_path, writer):
    (tmp_path / ".steelyard-notes").write_text("mine")
    assert len(names(tmp_path)) == 6
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert len(names(tmp_path)) == 6
    with draft_of(tmp_path / "a.txt") as draft:
        draft.write_text("whole")
    assert names(tmp_path) == [".steelyard-notes", "a.txt"]
    assert (tmp_path / "a.txt").read_text() == "whole"


def test_drafts_of_a_running_process_stay(tmp_path, writer):
    before = names(tmp_path)
    with draft_of(tmp_path / "b.txt") as draft:
        draft.write_text("whole")
    assert names(tmp_path) == sorted([*before, "b.txt"])
    # It can finish its work.
    writer.communicate(b"")
    assert writer.returncode == 0
    assert (tmp_path / "a.txt").read_text() == "half"


def test_drafts_of_this_process_stay(tmp_path):
    drafts = Drafts([tmp_path])
    drafts.draft(tmp_path / "a").write_text("half")
    with draft_of(tmp_path / "b") as draft:
        draft.write_text("whole")
    assert drafts.draft(tmp_path / "a").read_text() == "half"
    drafts.close()
    assert names(tmp_path) == ["b"]


def test_what_was_moved_away_by_a_killed_process_is_moved_back(tmp_path):
    (tmp_path / "a").write_text("old a")
    (tmp_path / "b").write_text("old b")
    killed = subprocess.run([sys.executable, "-c", REPLACER, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert "b" not in names(tmp_path)
    remove_stale_drafts(tmp_path)
    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_text() == "new a"
    assert (tmp_path / "b").read_text() == "old b"
