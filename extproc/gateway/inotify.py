"""inotify instances, of which Linux gives each user only a few: Envoy aborts when it needs one more.

Envoy opens one for each source of configuration that it watches (`extproc.envoy_config.resource_sources`). `envoy`
explains such an abort at the start; `reload` refuses a change that would cause it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

_LIMITS = {"fs.inotify.max_user_instances": Path("/proc/sys/fs/inotify/max_user_instances"),
           "user.max_inotify_instances": Path("/proc/sys/user/max_inotify_instances")}
_DEFAULT_LIMIT = 128
_ENOUGH = 1024


def open_instance() -> int:
    """The file descriptor of a new instance. Raises OSError if this user gets no more."""
    descriptor: int = ctypes.CDLL(None, use_errno=True).inotify_init()
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "no further inotify instance")
    return descriptor


def shortage(needed: int) -> str | None:
    """What to do if this user cannot get so many more instances; None if it can, or if the system has no inotify."""
    opened: list[int] = []
    try:
        for _ in range(needed):
            opened.append(open_instance())
    except AttributeError:
        return None
    except OSError:
        return advice()
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return None


def advice() -> str:
    """How to get more instances. The lower of two limits applies; the second is that of the user namespace."""
    limits = []
    for setting, path in _LIMITS.items():
        with contextlib.suppress(OSError, ValueError):
            limits.append((int(path.read_text()), setting))
    limit, setting = min(limits, default=(_DEFAULT_LIMIT, next(iter(_LIMITS))))
    raised = f"{setting}={_ENOUGH if limit < _ENOUGH else 4 * limit}"
    return (f"Linux gives this user no further inotify instances, which Envoy needs to watch its files: {setting} is "
            f"{limit}, for all programs and containers of this user together. End programs that hold some, or raise "
            f"the limit: sudo sysctl {raised} (permanently: as a line of /etc/sysctl.d/extproc.conf; for a container: "
            "on its host)")
