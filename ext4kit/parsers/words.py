"""Declarations in the notation of construct, without importing it.

Tables are read with NumPy. Therefore a declaration is only recorded, and it is converted to a
construct object when construct has to read or build a structure. If construct is imported at the
start, `ls -l` of a root directory with 120,000 files needs 38 MiB instead of 32 MiB.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import numpy as np

_NUMBER = re.compile(r"Int(8|16|32|64)([us])([lb])")


class Word:
    """A name from construct, the arguments of its call, and the name of the declared field.

    Attributes:
        word: the name in construct.
        arguments: arguments of the call; None without a call.
        name: name of the field; "" for none.
    """

    def __init__(self, word: str, arguments: tuple[Any, ...] | None = None, name: str = "") -> None:
        self.word = word
        self.arguments = arguments
        self.name = name

    def __call__(self, *arguments: Any) -> Word:
        """This word with call arguments, as in construct's notation."""
        return Word(self.word, arguments)

    def __rtruediv__(self, name: str) -> Word:
        """This word with the name of a field."""
        return Word(self.word, self.arguments, name)

    @property
    def subcons(self) -> tuple[Any, ...]:
        """The fields of a Struct."""
        return self.arguments or ()

    @property
    def spoken(self) -> Any:
        """The construct object that this word stands for."""
        import construct

        found = getattr(construct, self.word)
        if self.arguments is not None:
            parts = (each.spoken if isinstance(each, Word) else each for each in self.arguments)
            found = found(*parts)
        return self.name / found if self.name else found

    @cached_property
    def size(self) -> int:
        """Size in bytes."""
        if number := _NUMBER.fullmatch(self.word):
            return int(number[1]) // 8
        if self.word == "Bytes":
            return int(self.subcons[0])
        if self.word == "Array":
            return int(self.subcons[0]) * int(self.subcons[1].size)
        return sum(each.size for each in self.subcons)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype with the same bytes.

        Raises:
            TypeError: no dtype has these bytes.
        """
        if number := _NUMBER.fullmatch(self.word):
            order = "<" if number[3] == "l" else ">"
            return np.dtype(f"{order}{'u' if number[2] == 'u' else 'i'}{self.size}")
        if self.word == "Bytes":
            return np.dtype((np.uint8, self.subcons))
        if self.word == "Array":
            return np.dtype((self.subcons[1].dtype, self.subcons[:1]))
        if self.word == "Struct":
            return np.dtype([(each.name, each.dtype) for each in self.subcons])
        raise TypeError(f"no NumPy equivalent for {self.word}")


Array, Bytes, Struct = (Word(word) for word in ("Array", "Bytes", "Struct"))
Int8ub, Int8ul = Word("Int8ub"), Word("Int8ul")
Int16ub, Int16ul, Int16sl = Word("Int16ub"), Word("Int16ul"), Word("Int16sl")
Int32ub, Int32ul = Word("Int32ub"), Word("Int32ul")
Int32sb, Int32sl = Word("Int32sb"), Word("Int32sl")
Int64ub, Int64ul = Word("Int64ub"), Word("Int64ul")
