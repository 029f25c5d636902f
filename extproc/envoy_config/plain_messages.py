"""Envoy's message types as plain dataclasses, which load in a third of the time.

envoy-data-plane declares its messages as pydantic dataclasses: each makes a validator when it is loaded, and again when
it is first used. That is a second of CPU in every start, for checks that find nothing: mypy knows the types of what is
built here, and Envoy looks at the result. So while a module of that package is loaded, pydantic's decorator makes plain
dataclasses, which betterproto2 takes as well. Whoever has loaded a module of the package before keeps what they have,
and both kinds mix. Installed by the package `extproc.envoy_config` before it loads anything; changes nothing else of
pydantic.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_PACKAGE = "envoy_data_plane"


def install() -> None:
    """From now on. Harmless when repeated."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] != _PACKAGE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        import pydantic.dataclasses as borrowed

        theirs = borrowed.dataclass
        borrowed.dataclass = _dataclass  # type: ignore[assignment]
        try:
            super().exec_module(module)
        finally:
            borrowed.dataclass = theirs


def _dataclass(cls: type | None = None, *, config: object = None, **options: Any) -> Any:
    """The standard library's decorator with pydantic's signature. An unknown field is a TypeError here too."""
    made: Callable[[type], type] = dataclasses.dataclass(**options)
    return made if cls is None else made(cls)
