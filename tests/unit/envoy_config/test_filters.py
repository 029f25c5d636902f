"""The patterns for the internal headers that Envoy removes from a client's request."""

from __future__ import annotations

import re

import pytest

from extproc.envoy_config.filters import patterns_except

PREFIX = "x-extproc-"
OWN = ("x-extproc-finalize", "x-extproc-tools")


@pytest.mark.parametrize("own", [OWN, OWN[:1], ("x-extproc-to", "x-extproc-tools"), ()], ids=str)
def test_the_patterns_match_all_names_except_the_given_ones(own: tuple[str, ...]) -> None:
    patterns = [re.compile(pattern) for pattern in patterns_except(PREFIX, *own)]
    names = {PREFIX, PREFIX + "route", PREFIX + "z", "x-other", "x-extpro", *own}
    for name in own:
        for at in range(len(name) + 1):
            names |= {name[:at], name[:at] + "z", name[:at] + "z" + name[at:], name + name[at:]}
    for name in names:
        assert any(pattern.fullmatch(name) for pattern in patterns) is (
            name.startswith(PREFIX) and name not in own), name
