"""A key file: which content is a key, and how changes of the file are noticed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from extproc.config.keyfile import LONGEST_KEY_FILE, KeyFile
from extproc.process.log import Log
from extproc.translation.scrubbing import Scrubber
from extproc.worker.exchange_log import configured_secrets
from tests.unit.config.files import load


@pytest.mark.parametrize("content", ["abc.DEF-1", "abc.DEF-1\n", " \tabc.DEF-1 \r\n\n"])
def test_a_key_is_one_word_with_white_space_around_it(tmp_path: Path, content: str) -> None:
    file = tmp_path / "key"
    file.write_bytes(content.encode())
    key_file = KeyFile(str(file))
    assert (key_file.keys(), key_file.problem()) == (("abc.DEF-1",), None)


@pytest.mark.parametrize(("content", "reason"), [
    ("", "is empty"), (" \n", "is empty"), ("two words", "more than one word"), ("one\ntwo\n", "more than one word"),
    ("schlüssel", "cannot carry"), ("a\0b", "cannot carry"), ("x" * (LONGEST_KEY_FILE + 1), "more than one word"),
])
def test_other_content_is_a_problem_that_does_not_quote_it(tmp_path: Path, content: str, reason: str) -> None:
    file = tmp_path / "key"
    file.write_bytes(content.encode())
    key_file = KeyFile(str(file))
    assert key_file.keys() == ()
    problem = key_file.problem()
    assert problem is not None
    assert problem.startswith(str(file))
    assert reason in problem
    assert len(problem) < len(str(file)) + 100


def test_an_unreadable_file_is_a_problem(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (("none", "No such file"), ("", "not a regular file"), ("pipe", "not a regular file")):
        assert reason in str(KeyFile(str(tmp_path / name)).problem())
    assert "cannot be read" in str(KeyFile("\0").problem())


def test_a_changed_file_is_read_again_and_old_keys_are_remembered(tmp_path: Path) -> None:
    file = tmp_path / "key"
    key_file = KeyFile(str(file))
    assert key_file.keys() == ()
    file.write_text("first")
    assert key_file.keys() == ("first",)
    file.write_text("second")
    assert key_file.keys() == ("second", "first")
    new_file = tmp_path / "new"
    new_file.write_text("third")
    new_file.rename(file)
    assert key_file.keys() == ("third", "second", "first")
    file.write_text("back\n")
    assert key_file.keys() == ("back", "third", "second"), "bounded"
    file.unlink()
    assert key_file.keys() == ("back", "third", "second")
    assert "No such file" in str(key_file.problem())
    file.write_text("third")
    assert key_file.keys() == ("third", "back", "second")
    assert key_file.problem() is None


def test_a_key_of_the_same_length_written_in_the_same_moment_is_noticed(tmp_path: Path) -> None:
    """File times are coarse: two writes within some milliseconds may leave the same time."""
    file = tmp_path / "key"
    key_file = KeyFile(str(file))
    for number in range(10, 60):
        file.write_text(f"key-{number}")
        assert key_file.keys()[0] == f"key-{number}"


def test_a_changed_link_is_a_change(tmp_path: Path) -> None:
    """Kubernetes replaces the files of a mounted secret in this way."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(f"key-{name}")
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "key").symlink_to("..data/key")
    key_file = KeyFile(str(tmp_path / "key"))
    assert key_file.keys() == ("key-one",)
    (tmp_path / "swap").symlink_to("two")
    (tmp_path / "swap").rename(tmp_path / "..data")
    assert key_file.keys() == ("key-two", "key-one")


def test_an_unchanged_file_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("key")
    os.utime(file, (1e9, 1e9))
    key_file = KeyFile(str(file))
    assert key_file.keys() == ("key",)
    file.write_text("yek")
    os.utime(file, (1e9, 1e9))
    assert key_file.keys() == ("key",), "the change has left no trace, so the file was not read"


# --------------------------------------------------------------------------------------------------------- scrubbing


def test_present_and_earlier_keys_of_files_are_scrubbed(tmp_path: Path) -> None:
    """The key may change after the exchange began and before Envoy sends it, and a provider may quote either."""
    file = tmp_path / "key"
    file.write_text("earlier-token\n")
    config = load(tmp_path, {"key_file": "key"})
    config.backends["b"].remember_keys()  # as each exchange does at its beginning
    scrubber = Scrubber(config.secrets())
    file.write_text("present-token\n")
    assert scrubber.text("bad present-token and earlier-token.") == "bad *** and ***."
    assert "-token" not in repr(config)


def test_the_log_scrubs_the_present_key(tmp_path: Path) -> None:
    file = tmp_path / "key"
    config = load(tmp_path, {"key_file": "key"})
    lines: list[bytes] = []
    log = Log("debug", lambda: configured_secrets(config), lines.append)
    for key in ("token-one", "token-two"):
        file.write_text(key)
        log.write_event("info", "said", text=f"it was {key}")
    assert [b"it was ***" in line for line in lines] == [True, True]
