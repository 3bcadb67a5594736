"""Reads rules from YAML files: those of this package, and a user's own.

A file is a family of rules, one document each; `docs/rules.md` describes the keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar

from ext4kit.errors import RequestError
from ext4kit.timeline import EventKind
from ext4kit.timeline.hints import HintKind
from ext4kit.triage.rules.patterns import expanded
from ext4kit.triage.rules.rule import Look, Rule, Trait, Weight
from ext4kit.yaml_files import read_documents

_Kind = TypeVar("_Kind", bound=StrEnum)
_CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TECHNIQUE = re.compile(r"T\d{4}(\.\d{3})?")
_ENDINGS = (".yaml", ".yml")
_GROUP = "ext4kit.rules"
_FAMILIES = files("ext4kit.triage.rules").joinpath("families")
_PLACES, _PHRASES = "places.yaml", "phrases.yaml"
_PLACE = re.compile(r"<([^<>]*)>")
_PHRASE = re.compile(r"<<([a-z-]+)>>")


@cache
def own_rules() -> tuple[Rule, ...]:
    """The rules of this package, in the order of their files."""
    names = (_PLACES, _PHRASES)
    paths = [path for path in _FAMILIES.iterdir() if _is_yaml(path) and path.name not in names]
    paths.sort(key=lambda path: path.name)
    return tuple(_unique(rule for path in paths for rule in _read(path, path.name)))


def read_rules(paths: Sequence[Path]) -> tuple[Rule, ...]:
    """The rules of this package, of other packages, and of files and folders.

    A rule with the code of one of this package replaces it. Another package names a folder of its
    own as an entry point of the group `ext4kit.rules`: a function that returns its path.

    Raises:
        RequestError: a file cannot be read, or has a wrong rule.
    """
    from importlib.metadata import entry_points

    others = [Path(point.load()()) for point in entry_points(group=_GROUP)]
    more = _unique(rule for path in (*others, *paths) for rule in _of_path(path))
    replaced = {rule.code: rule for rule in more}
    kept = [replaced.pop(rule.code, rule) for rule in own_rules()]
    return (*kept, *replaced.values())


def _of_path(path: Path) -> Iterator[Rule]:
    if not path.is_dir():
        yield from _read(path, str(path))
        return
    found = sorted(one for one in path.iterdir() if _is_yaml(one))
    if not found:
        raise RequestError(f"{path}: no rules: there is no *.yaml in it")
    for one in found:
        yield from _read(one, str(one))


def _is_yaml(path: Traversable) -> bool:
    return path.name.endswith(_ENDINGS)


def _unique(rules: Iterable[Rule]) -> list[Rule]:
    found: dict[str, Rule] = {}
    for rule in rules:
        if rule.code in found:
            raise RequestError(f"the rule {rule.code} is defined twice")
        found[rule.code] = rule
    return list(found.values())


def _read(path: Traversable, shown: str) -> Iterator[Rule]:
    """The rules of a file.

    Raises:
        RequestError: it cannot be read, or has a wrong rule.
    """
    family = path.name.rpartition(".")[0]
    for line, document in read_documents(path, shown):
        try:
            yield _Document(document).rule(family)
        except (ValueError, RequestError) as error:
            raise RequestError(f"{shown}, line {line}: {error}") from error


class _Document:
    """A rule as it stands in a file; each key that is read is taken out of it.

    Raises:
        ValueError: it is no rule.
    """

    def __init__(self, document: object) -> None:
        if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
            raise ValueError("a rule is a list of keys with values, such as `code: web-shell`")
        self._left = dict(document)

    def rule(self, family: str) -> Rule:
        """The rule.

        Raises:
            ValueError: a key is wrong, is missing, or has a wrong value.
            RequestError: a pattern of paths is wrong.
        """
        attributes = self._attributes()
        attributed = [Trait.ATTRIBUTED] if attributes else []
        rule = Rule(
            code=self._matching(_CODE, self._text("code"), "code"),
            family=family,
            weight=_one_of(Weight, self._text("weight"), "weight"),
            title=self._text("title"),
            why=self._text("why"),
            innocent=self._texts("innocent"),
            attack=tuple(
                self._matching(_TECHNIQUE, each, "attack") for each in self._texts("attack")
            ),
            references=self._texts("references"),
            look=frozenset(self._several(Look, "look")),
            paths=self._patterns("paths") or ("/**",),
            unless=self._patterns("unless"),
            name=self._pattern("name"),
            events=self._several(EventKind, "events"),
            hints=self._hints(),
            needs=frozenset((*self._several(Trait, "needs"), *attributed)),
            lacks=frozenset(self._several(Trait, "lacks")),
            mentions=tuple(each.encode() for each in self._texts("mentions")),
            content=self._pattern("content"),
            without=self._pattern("without"),
            added=self._pattern("added"),
            comments=self._pattern("comments"),
            attributes=attributes,
            positive=self._text("positive", ""),
            negative=self._text("negative", ""),
        )
        if self._left:
            raise ValueError(f"{rule.code}: there is no key {', '.join(sorted(self._left))}")
        _check(rule)
        return rule

    def _text(self, key: str, default: str | None = None) -> str:
        value = self._left.pop(key, default)
        if not isinstance(value, str):
            raise ValueError(f"{key} is missing" if value is None else f"{key} is no text")
        return value.strip()

    def _texts(self, key: str) -> tuple[str, ...]:
        value = self._left.pop(key, [])
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise ValueError(f"{key} is neither a text nor a list of texts")
        return tuple(found)

    def _patterns(self, key: str) -> tuple[str, ...]:
        """Patterns of paths, with alternatives instead of names of places."""
        found = tuple(_PLACE.sub(_alternatives, each) for each in self._texts(key))
        for pattern in found:
            expanded(pattern)
        return found

    def _several(self, kind: type[_Kind], key: str) -> tuple[_Kind, ...]:
        return tuple(_one_of(kind, each, key) for each in self._texts(key))

    def _pattern(self, key: str) -> re.Pattern[bytes] | None:
        value = self._left.pop(key, None)
        return None if value is None else _regex(value, key)

    def _matching(self, wanted: re.Pattern[str], text: str, key: str) -> str:
        if not wanted.fullmatch(text):
            raise ValueError(f"{key} {text!r} is not of the form {wanted.pattern}")
        return text

    def _hints(self) -> tuple[HintKind, ...]:
        names = {kind.code: kind for kind in HintKind}
        wanted = self._texts("hints")
        if unknown := [each for each in wanted if each not in names]:
            raise ValueError(f"hints has {unknown[0]!r}; there are {', '.join(names)}")
        return tuple(names[each] for each in wanted)

    def _attributes(self) -> tuple[tuple[str, re.Pattern[bytes]], ...]:
        value = self._left.pop("attributes", {})
        if not isinstance(value, dict):
            raise ValueError("attributes is no list of names with patterns of their values")
        return tuple((str(name), _regex(wanted, "attributes")) for name, wanted in value.items())


@cache
def _texts_of(name: str) -> dict[str, str]:
    """The texts that names in angle brackets stand for."""
    ((_, texts),) = read_documents(_FAMILIES.joinpath(name), name)
    assert isinstance(texts, dict)
    return texts


def _alternatives(found: re.Match[str]) -> str:
    places = _texts_of(_PLACES)
    if found[1] not in places:
        raise ValueError(f"there is no place {found[0]}; there are {', '.join(places)}")
    return "{" + places[found[1]] + "}"


def _phrase(found: re.Match[str]) -> str:
    """The regular expression that a name stands for; names in it are replaced too."""
    phrases = _texts_of(_PHRASES)
    if found[1] not in phrases:
        raise ValueError(f"there is no phrase {found[0]}; there are {', '.join(phrases)}")
    return "(?:" + _PHRASE.sub(_phrase, phrases[found[1]].strip()) + ")"


def _regex(value: object, key: str) -> re.Pattern[bytes]:
    if not isinstance(value, str):
        raise ValueError(f"{key} is no regular expression")
    text = _PHRASE.sub(_phrase, value)
    try:
        return re.compile(text.encode(), re.DOTALL | re.MULTILINE)
    except re.error as error:
        raise ValueError(f"{key} is no regular expression: {error}") from error


def _one_of(kind: type[_Kind], text: str, key: str) -> _Kind:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{key} has {text!r}; there are {', '.join(kind)}") from None


def _check(rule: Rule) -> None:
    """Refuse keys that contradict each other.

    Raises:
        ValueError: the rule cannot match anything.
    """
    needed: list[tuple[Look, object, str]] = [
        (Look.EVENTS, rule.events, "events"),
        (Look.HINTS, rule.hints, "hints"),
    ]
    for look, values, key in needed:
        if (look in rule.look) != bool(values):
            raise ValueError(f"{rule.code}: look {look} and {key} need each other")
    if rule.added is not None and rule.look != {Look.LIVE}:
        raise ValueError(f"{rule.code}: added needs look: [live]")
    if not rule.look:
        raise ValueError(f"{rule.code}: look is missing")
