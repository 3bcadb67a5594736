"""What the schema of a record says follows from its type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, NewType, NotRequired, TypedDict, TypeVar

import pytest

from ext4kit import fields
from ext4kit.report.json_schema import schema_of

Key = TypeVar("Key", bound=str)
Number = NewType("Number", int)
Moment = Annotated[str, "Not that of `fields`."]


class Colour(StrEnum):
    """An enumeration."""

    RED = "red"
    BLUE = "blue"


class Part(TypedDict, total=False):
    """Fields that can be absent."""

    some: int


class Counted(TypedDict, Generic[Key]):
    """Counts by a word."""

    counts: dict[Key, int]


class Thing(fields.InodeFacts, Part):
    """A thing
    on two lines.

    And more.
    """  # noqa: D205 -- it is on two

    record: Literal["thing"]
    here: Moment
    plain: Annotated[Number, ("minimum", 1), "A number."]
    maybe: NotRequired[fields.Size | None]
    colour: Colour | None
    pair: tuple[int, int]
    names: tuple[str, ...]
    inner: Counted[Colour]
    any: Mapping[str, object]
    value: int | list[object] | None


@dataclass
class Facts:
    """What is made into a record."""

    state: Colour
    count: int = 0


def properties(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schema["properties"]
    return found


def test_each_annotation_is_told_in_json() -> None:
    schema = schema_of("thing", (Thing,))
    assert schema["title"] == "thing"
    assert schema["description"] == "A thing on two lines."
    assert schema["additionalProperties"] is False
    found = properties(schema)
    assert found["record"] == {"const": "thing"}
    assert found["plain"] == {"type": "integer", "minimum": 1, "description": "A number."}
    assert found["maybe"] == {"type": ["integer", "null"], "minimum": 0, "description": "Bytes."}
    assert found["colour"] == {"type": ["string", "null"], "enum": ["red", "blue", None]}
    pair = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
    assert found["pair"] == pair
    assert found["names"] == {"type": "array", "items": {"type": "string"}}
    assert found["any"] == {"type": "object"}
    assert found["value"] == {"type": ["integer", "array", "null"]}


def test_a_field_is_required_unless_it_can_be_absent() -> None:
    schema = schema_of("thing", (Thing,))
    assert properties(schema).keys() - schema["required"] == {"some", "maybe"}


def test_a_dict_of_an_enumeration_has_all_of_its_words() -> None:
    counts = properties(schema_of("thing", (Thing,)))["inner"]["properties"]["counts"]
    assert counts["properties"].keys() == set(counts["required"]) == {"red", "blue"}
    assert counts["additionalProperties"] is False


def test_a_field_means_what_it_means_where_it_is_declared() -> None:
    """The name of the type of a time that `InodeFacts` has means something else here."""
    found = properties(schema_of("thing", (Thing,)))
    assert found["atime"]["type"] == ["integer", "null"]
    assert found["here"]["type"] == "string"


def test_a_dataclass_gets_the_field_record() -> None:
    schema = schema_of("two words", (Facts,))
    assert schema["$id"] == "urn:ext4kit:schema:two-words"
    assert properties(schema)["record"] == {"const": "two words"}
    assert schema["required"] == ["record", "state", "count"]


def test_several_forms_are_alternatives() -> None:
    schema = schema_of("thing", (Thing, Facts), "Of both.")
    assert schema["description"] == "Of both."
    assert [form["title"] for form in schema["oneOf"]] == [
        "A thing on two lines",
        "What is made into a record",
    ]


@pytest.mark.parametrize(
    "hint",
    [
        bytes,
        complex,
        list[bytes],
        tuple[int, str],
        list[int] | list[str],
        dict[str, bytes],
        Colour | int,
        Literal["red"] | None,
    ],
    ids=str,
)
def test_what_json_cannot_say_is_refused(hint: Any) -> None:
    with pytest.raises(TypeError):
        schema_of("thing", ({"field": hint},))
