"""Whether the kernel lets Envoy watch its files: asked before Envoy is, which aborts where the answer is no.

Envoy opens one inotify instance for each source of configuration that it watches, and Linux gives every user a number
of them, 128 by default, for all programs together: editors, other gateways and, as the same user, containers of the
same machine. How many a gateway needs does not depend on its backends (`extproc.envoy_config.resource_sources`).

The kernel is asked by opening as many as are needed and closing them again; figures come from /proc and are only for
the message. Where there is no inotify, nothing is missing.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import errno
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

_LIMITS = {"fs.inotify.max_user_instances": Path("/proc/sys/fs/inotify/max_user_instances"),
           "user.max_inotify_instances": Path("/proc/sys/user/max_inotify_instances")}
"""By the name of the setting. The lower one holds; the second is that of this user namespace."""
_ENOUGH = 1024
_INSTANCE = "anon_inode:inotify"
_BIGGEST = 3
"""As many programs are named."""


def instances(files: Iterable[str]) -> int:
    """How many Envoy opens for these files of a runtime directory, by their names."""
    # A certificate is watched twice: the file that names it, and the folder in which a move says that it is another.
    needs = {"cds": 1, "lds": 1, "rds": 1, "sds": 2}
    return sum(needs.get(name.partition("-")[0].partition(".")[0], 0) for name in files)


def shortage(needed: int) -> str | None:
    """What to tell an operator when the kernel would not give this user `needed` more instances; None when it would,
    and where it cannot be asked."""
    return None if _given(needed) else explanation(needed)


def explanation(needed: int) -> str:
    """Why Envoy cannot watch its files, and what to do."""
    limit, setting = _limit()
    more = f"{setting}={_ENOUGH if limit < _ENOUGH else 4 * limit}"
    return (f"Envoy needs {needed} inotify instances to watch its files, and Linux does not give this user as many: "
            f"{setting} is {limit}, {_in_use()}. End programs that hold some, or allow more: sudo sysctl {more} (for "
            "good: as a line of /etc/sysctl.d/extproc.conf; for a container: on its host)")


def _given(needed: int) -> bool:
    """Whether the kernel gives as many now."""
    try:
        open_one = ctypes.CDLL(None, use_errno=True).inotify_init1
    except (AttributeError, OSError):
        return True  # another kernel
    opened: list[int] = []
    try:
        for _ in range(needed):
            found = open_one(os.O_CLOEXEC)
            if found < 0:
                # Of files in general there may be too few, too; that is not for us to judge.
                return ctypes.get_errno() != errno.EMFILE or not _has_descriptors()
            opened.append(found)
    finally:
        for one in opened:
            os.close(one)
    return True


def _has_descriptors() -> bool:
    """Whether this process may open another file at all."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _limit() -> tuple[int, str]:
    """The number that holds, and its setting; Linux's default where it is not told."""
    limits = []
    for setting, path in _LIMITS.items():
        with contextlib.suppress(OSError, ValueError):
            limits.append((int(path.read_text()), setting))
    return min(limits, default=(128, next(iter(_LIMITS))))


def _in_use() -> str:
    """What programs of this user hold, and which the most."""
    held = collections.Counter(_held())
    biggest = ", ".join(f"{name}: {count}" for name, count in held.most_common(_BIGGEST))
    return f"programs that can be seen from here hold {held.total()}{f' ({biggest})' if held else ''}"


def _held() -> Mapping[str, int]:
    """The instances of this user's processes as far as they can be seen, by the programs' names."""
    held: collections.Counter[str] = collections.Counter()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid != os.geteuid():
                continue
            count = sum(_is_instance(descriptor) for descriptor in (process / "fd").iterdir())
            if count:
                held[(process / "comm").read_text().strip()] += count
    return held


def _is_instance(descriptor: Path) -> bool:
    try:
        return os.readlink(descriptor) == _INSTANCE
    except OSError:
        return False
