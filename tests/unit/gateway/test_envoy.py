"""An Envoy that ends by itself: its last words, with advice where there is some."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from extproc.envoy_config import RuntimeLayout
from extproc.gateway import envoy
from extproc.gateway.envoy import Envoy

ABORTING_ENVOY = """#!/bin/sh
[ "$1" = --version ] && echo 'envoy  version: 0a/1.40.0/Clean/RELEASE/BoringSSL' && exit
echo 'critical assert failure: inotify_fd_ >= 0. Details: Consider increasing value' >&2
for line in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do echo "error #$line UNKNOWN [0x559cc8a7322c]" >&2; done
kill -ABRT $$
"""


def test_an_abort_for_lack_of_inotify_instances_is_explained(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "envoy"
    program.write_text(ABORTING_ENVOY)
    program.chmod(0o755)
    monkeypatch.setattr(envoy, "find_envoy", lambda: str(program))

    async def last_words() -> str:
        running = await Envoy.start(layout, {})
        await running.wait_for_exit()
        return running.describe_end()

    layout = RuntimeLayout.create(1)
    try:
        words = asyncio.run(last_words())
    finally:
        layout.remove()
    assert "Envoy was ended by SIGABRT: inotify_fd_ >= 0" in words
    assert "max_user_instances is " in words or "max_inotify_instances is " in words
    assert "sudo sysctl " in words
    assert "UNKNOWN" not in words, "the addresses of a stack trace"
