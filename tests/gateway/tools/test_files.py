"""The tools `ls`, `read_file`, `write_file` and `str_replace`, in a real sandbox."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest

from sandgate_gateway.domain.result import EntryKind, EntryList, FileChange, FileRange
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.tools.bash import Bash
from sandgate_gateway.tools.edit import StrReplace, WriteFile
from sandgate_gateway.tools.ls import Ls
from sandgate_gateway.tools.read_file import ReadFile

pytestmark = pytest.mark.local


async def test_ls_lists_two_levels(use: Any, workspace: str) -> None:
    """One absolute path a line, folders with a slash, and the entries beside it."""
    await use(Bash(), command="mkdir -p src/deep/er; touch src/a.py src/deep/b.py; ln -s src link; mkdir .git")
    result = await use(Ls(), path=workspace)
    assert result.text.split("\n") == [
        f"{workspace}/link",
        f"{workspace}/src/",
        f"{workspace}/src/a.py",
        f"{workspace}/src/deep/",
        "(Not listed because of their names, such as .git, node_modules and caches: 1)",
    ]
    assert isinstance(result.data, EntryList)
    assert [entry.kind for entry in result.data.entries] == [
        EntryKind.SYMLINK, EntryKind.DIRECTORY, EntryKind.FILE, EntryKind.DIRECTORY,
    ]  # fmt: skip
    assert abs((datetime.now(UTC) - result.data.entries[0].modified_at).total_seconds()) < 60
    assert (await use(Ls())).text == result.text
    assert f"{workspace}/src/deep/er/" in (await use(Ls(), depth=99)).text


async def test_ls_tells_empty_from_missing(use: Any, workspace: str) -> None:
    """An empty folder is "(empty)"; a missing one and a file are failures with a next step."""
    await use(Bash(), command="mkdir empty; touch file")
    assert (await use(Ls(), path=f"{workspace}/empty")).text == "(empty)"
    missing = await use(Ls(), path=f"{workspace}/missing")
    assert missing.outcome is Outcome.FAILED
    assert missing.failure.reason == "not-found"
    assert missing.text == (
        f"Error (not-found): {workspace}/missing: No such file or directory\nLook with ls or glob for the right path."
    )
    assert (await use(Ls(), path=f"{workspace}/file")).failure.reason == "not-a-directory"


async def test_ls_is_bounded(use: Any) -> None:
    """Above 20,000 characters the head is kept, and above 1,000 entries the list is cut; both are said."""
    await use(Bash(), command="mkdir -p many; cd many; touch $(seq -f 'file-%05g' 1500)")
    result = await use(Ls())
    assert len(result.text) <= 20_000
    assert result.truncated is True
    assert isinstance(result.data, EntryList)
    assert len(result.data.entries) == 1000
    assert "entries left out here: " in result.text
    assert "Only the first 1,000 entries are listed" in result.text


async def test_names_cannot_forge_lines(use: Any, workspace: str) -> None:
    """A line end in a name is shown as an escape, and names that are no UTF-8 are shown, too."""
    await use(Bash(), command="touch $'evil\\nfake.py' $'odd\\xff'")
    result = await use(Ls())
    assert result.text.split("\n") == [f"{workspace}/evil\\nfake.py", f"{workspace}/odd\ufffd"]
    assert result.data.entries[0].path == f"{workspace}/evil\nfake.py"


async def test_read_file_whole_and_in_parts(use: Any, workspace: str) -> None:
    """Text for the model, exact bytes and the range beside it."""
    await use(Bash(), command="printf 'one\\ntwo\\nthr\\xffee\\n' > f")
    result = await use(ReadFile(), path=f"{workspace}/f")
    assert result.text == "one\ntwo\nthr\ufffdee\n"
    assert result.data == FileRange(
        path=f"{workspace}/f", start_line=1, end_line=3, total_bytes=15, content=b"one\ntwo\nthr\xffee\n", total_lines=3
    )
    part = await use(ReadFile(), path=f"{workspace}/f", start_line=2, end_line=2)
    assert part.text == "two\n"
    assert (part.data.start_line, part.data.end_line, part.data.offset_bytes) == (2, 2, 4)
    assert (await use(ReadFile(), path=f"{workspace}/f", start_line=3, end_line=1000)).data.end_line == 3


async def test_read_file_of_nothing(use: Any, workspace: str) -> None:
    """An empty file is "(empty)"; lines that there are not are a failure that says how many there are."""
    await use(Bash(), command="touch empty; seq 12 > twelve")
    assert (await use(ReadFile(), path=f"{workspace}/empty")).text == "(empty)"
    past = await use(ReadFile(), path=f"{workspace}/twelve", start_line=13)
    assert past.outcome is Outcome.FAILED
    assert "the file has 12 lines" in past.text
    backwards = await use(ReadFile(), path=f"{workspace}/twelve", start_line=5, end_line=4)
    assert backwards.failure.violations[0].pointer == "/end_line"


async def test_a_long_file_can_be_read_to_its_end_by_following_the_notes(use: Any, workspace: str) -> None:
    """Each part is within 50,000 characters and 64 KiB, says with which line to go on, and none is lost or doubled."""
    await use(
        Bash(), command="python3 -c \"print('\\n'.join(f'{n} ' + 'ü🎈x'[n % 3] * (n % 90) for n in range(9000)))\" > f"
    )
    start, parts = 1, []
    while True:
        result = await use(ReadFile(), path=f"{workspace}/f", start_line=start)
        assert len(result.text) <= 50_000
        assert isinstance(result.data, FileRange)
        assert result.data.start_line == start
        parts.append(result.data.content)
        assert result.text.startswith(result.data.content.decode())
        if not result.truncated:
            break
        start = int(result.text.rsplit("start_line=", 1)[1].split(".")[0])
        assert start == result.data.end_line + 1
        assert "of 9,000 are shown" in result.text
    assert len(parts) > 3
    whole = await use(Bash(), command="sha256sum < f")
    assert whole.text.split()[0] == hashlib.sha256(b"".join(parts)).hexdigest()


async def test_a_line_that_is_too_long_is_said(use: Any, workspace: str) -> None:
    """Its beginning is shown, and what to do about the rest."""
    await use(Bash(), command="python3 -c \"print('x' * 70000); print('y')\" > f")
    result = await use(ReadFile(), path=f"{workspace}/f")
    assert len(result.text) <= 50_000
    assert "only the beginning of line 1 of 2 is shown" in result.text


async def test_read_file_of_what_is_no_text(use: Any, workspace: str) -> None:
    """Binary files, folders, pipes and relative paths are failures that say what to do."""
    await use(Bash(), command="printf 'a\\0b' > binary; mkfifo pipe")
    assert (await use(ReadFile(), path=f"{workspace}/binary")).failure.reason == "binary-file"
    assert (await use(ReadFile(), path=f"{workspace}/pipe")).failure.reason == "unsupported-file"
    assert (await use(ReadFile(), path=workspace)).failure.reason == "is-a-directory"
    assert (await use(ReadFile(), path="/etc/shadow")).outcome is Outcome.FAILED
    relative = await use(ReadFile(), path="./src/main.py")
    assert relative.failure.reason == "invalid-path"
    assert f"did you mean {workspace}/src/main.py?" in relative.text


async def test_write_file(use: Any, workspace: str) -> None:
    """A file is made with its folders, replaced, and appended to."""
    path = f"{workspace}/new/folder/f.txt"
    made = await use(WriteFile(), path=path, content="grün\n")
    assert made.text == f"OK: 6 bytes written to {path} (new file)."
    assert made.data == FileChange(path=path, created=True, size_bytes=6)
    replaced = await use(WriteFile(), path=path, content="")
    assert replaced.text == f"OK: 0 bytes written to {path} (replaced)."
    await use(WriteFile(), path=path, content="a", append=True)
    appended = await use(WriteFile(), path=path, content="Error: b", append=True)
    assert appended.text == f"OK: 8 bytes appended to {path} (it has 9 now)."
    assert (await use(ReadFile(), path=path)).text == "aError: b"
    refused = await use(WriteFile(), path="/usr/bin/python3", content="x")
    assert refused.failure.reason == "permission-denied"


async def test_write_file_has_a_limit_that_an_append_has_not(use: Any, workspace: str) -> None:
    """81,920 bytes at once by default; the refusal says how to go on, and the limit can be another or none."""
    path = f"{workspace}/f"
    assert (await use(WriteFile(), path=path, content="x" * 81_920)).outcome is Outcome.COMPLETED
    refused = await use(WriteFile(), path=path, content="é" * 40_961)
    assert refused.failure.reason == "too-large"
    assert "append set to true" in refused.text
    assert (await use(WriteFile(), path=path, content="x" * 900_000, append=True)).data.size_bytes == 981_920
    assert (await use(WriteFile(most_bytes=0), path=path, content="x" * 900_000)).data.size_bytes == 900_000


async def test_str_replace(use: Any, workspace: str) -> None:
    """One place, or all of them; never one of several."""
    path = f"{workspace}/f.py"
    await use(WriteFile(), path=path, content="x = 1\ny = 1\nz = ü\n")
    done = await use(StrReplace(), path=path, old_str="z = ü", new_str="z = 🎈")
    assert done.text == f"OK: replaced 1 place in {path}."
    many = await use(StrReplace(), path=path, old_str=" = 1", new_str=" = 2")
    assert many.failure.reason == "not-unique"
    assert "2 times, beginning on line 1, 2" in many.text
    assert "replace_all" in many.text
    everything = await use(StrReplace(), path=path, old_str=" = 1", new_str=" = 2", replace_all=True)
    assert everything.data == FileChange(path=path, created=False, size_bytes=21, replacements=2)
    assert (await use(ReadFile(), path=path)).text == "x = 2\ny = 2\nz = 🎈\n"
    assert (await use(StrReplace(), path=path, old_str="no", new_str="")).failure.reason == "no-match"
    assert (await use(StrReplace(), path=path, old_str="x", new_str="x")).failure.reason == "invalid-arguments"
    assert (await use.unchecked(StrReplace(), path=path, old_str="", new_str="x")).failure.reason == "invalid-arguments"
    assert (await use(StrReplace(), path=f"{workspace}/no", old_str="x", new_str="")).failure.reason == "not-found"


async def test_edits_in_parallel_are_all_kept(use: Any, workspace: str) -> None:
    """A model that edits one file in several calls at once loses none of them."""
    path = f"{workspace}/f"
    await use(WriteFile(), path=path, content="".join(f"<{number}>\n" for number in range(10)))
    results = await asyncio.gather(
        *(use(StrReplace(), path=path, old_str=f"<{number}>", new_str=f"[{number}]") for number in range(10))
    )
    assert {result.outcome for result in results} == {Outcome.COMPLETED}
    assert (await use(ReadFile(), path=path)).text == "".join(f"[{number}]\n" for number in range(10))


async def test_files_of_the_host_are_out_of_reach(use: Any, workspace: str) -> None:
    """Neither `..` nor a symbolic link leads out: the operations run inside."""
    await use(Bash(), command="ln -s / root-link; ln -s ../../../../../../root up")
    for path in (f"{workspace}/root-link/root", f"{workspace}/up", f"{workspace}/../../../../root"):
        assert (await use(Ls(), path=path)).outcome is Outcome.FAILED
    for path in (f"{workspace}/root-link/etc/shadow", f"{workspace}/../../../etc/shadow"):
        assert (await use(ReadFile(), path=path)).outcome is Outcome.FAILED


async def test_read_file_whose_first_line_is_too_long(use: Any, workspace: str) -> None:
    """The text says that it shows a part of the line; the typed data holds that line and no other."""
    await use(Bash(), command="printf '%060000d\\nsecond\\n' 0 > long")
    result = await use(ReadFile(), path=f"{workspace}/long")
    assert "only the beginning of line 1 of 2 is shown" in result.text
    assert result.truncated
    assert (result.data.start_line, result.data.end_line) == (1, 1)
    assert result.data.content == b"0" * 60_000 + b"\n"
