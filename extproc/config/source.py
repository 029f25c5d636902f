"""The text of a configuration file -> a plain tree of mappings, lists and values.

`parse` reads YAML (JSON is YAML too) and refuses repeated keys; `expand` replaces `${VAR}` inside strings. Both collect
all problems with their paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from extproc.config.values import Problems, join

_TAG = "tag:yaml.org,2002:"
_VARIABLE = re.compile(r"\$?\$\{([^}]*)\}?")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Loader(yaml.SafeLoader):
    """Safe YAML with the plain scalars of YAML 1.2: `off`, `no` and dates are text, as in `style: off`."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (f"{_TAG}bool", f"{_TAG}timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(f"{_TAG}bool", re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF"))


class FromEnvironment(str):
    """A string with text from the environment. It may also stand for a number or a boolean."""

    __slots__ = ()


def parse(text: str, problems: Problems) -> Any:
    """The plain tree of a YAML text; None if it is not YAML."""
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        before = text[:error.position]
        place = f"line {before.count(chr(10)) + 1}, column {error.position - before.rfind(chr(10))}"
        problems.append((place, f"not valid YAML: the character U+{ord(text[error.position]):04X} is not allowed in "
                                "the file; within double quotes it can be written as an escape"))
        return None
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        problems.extend(_repeated_keys(node, "", ()))
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "file"
        problems.append((place, f"not valid YAML: {error.problem or error.context}"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problems.append(("file", f"not valid YAML: {str(error).splitlines()[0]}"))
    finally:
        loader.dispose()
    return None


def _repeated_keys(node: yaml.Node, path: str, above: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    if id(node) in above:
        yield path, "refers to itself"
        return
    inside = (*above, id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _repeated_keys(item, join(path, index), inside)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in lines:
                yield join(path, name), f"the key is there twice (lines {lines[name]} and {key.start_mark.line + 1})"
            lines.setdefault(name, key.start_mark.line + 1)
            yield from _repeated_keys(value, join(path, name), inside)


def expand(tree: Any, env: Mapping[str, str], problems: Problems, path: str = "") -> Any:
    """The tree with `${VAR}` replaced in every string (values, not keys); `$${` stands for the characters `${`."""
    if isinstance(tree, dict):
        if strange := [key for key in tree if isinstance(key, str) and not _is_text(key)]:
            problems.extend((path or "file", f"the key {key!a} is no text") for key in strange)
            tree = {key: value for key, value in tree.items() if key not in strange}
        return {key: expand(value, env, problems, join(path, str(key))) for key, value in tree.items()}
    if isinstance(tree, list):
        return [expand(value, env, problems, join(path, index)) for index, value in enumerate(tree)]
    if isinstance(tree, str):
        text = _expand_string(tree, env, problems, path) if "${" in tree else tree
        if not _is_text(text):
            problems.append((path, "holds bytes or half a character that are no text"))
            return ""
        return text
    return tree


def _is_text(text: str) -> bool:
    """False for lone surrogates: YAML can contain one as an escape, and Python uses them for bytes of the environment
    that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _expand_string(text: str, env: Mapping[str, str], problems: Problems, path: str) -> str:
    replaced = False

    def replace(found: re.Match[str]) -> str:
        nonlocal replaced
        whole, name = found.group(0), found.group(1)
        if whole.startswith("$$"):
            return whole[1:]
        if not whole.endswith("}") or not _VARIABLE_NAME.fullmatch(name):
            problems.append((path, f'"{whole}" names no environment variable (write $${{ for the characters ${{)'))
            return whole
        if name not in env:
            problems.append((path, f"the environment variable {name} is not set"))
            return whole
        replaced = True
        return env[name]

    expanded = _VARIABLE.sub(replace, text)
    return FromEnvironment(expanded) if replaced else expanded
