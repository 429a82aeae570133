"""Reads a pickle of protocol 2 to 5 as data: dictionaries, lists, tuples, numbers and texts; nothing is called.

Memory grows in proportion to the pickle: lengths are checked before they are believed, places in the memo are bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from arcbeam.core.errors import FormatError

LONGEST_NUMBER = 64  # bytes of an integer
MOST_KEY = 1 << 32  # integers of larger magnitude are no keys
PROTOCOLS = range(2, 6)


@dataclass(frozen=True, slots=True)
class Name:
    """A name that a pickle refers to: that of a type or a function."""

    module: str
    name: str


class Stateful:
    """The stand-in for an object that is made of nothing but its state."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state: Any = None


class _Dropped:
    """The stand-in for every object of a type that is not read."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "an object that is not read"


DROPPED = _Dropped()
_DICTIONARIES = (Name("collections", "OrderedDict"), Name("builtins", "dict"))


class Reader:
    """One pickle, read once; `make(name, arguments)` and `persistent(id)` return the stand-ins for its objects."""

    def __init__(
        self, data: bytes, make: Callable[[Name, tuple[Any, ...]], Any], persistent: Callable[[Any], Any]
    ) -> None:
        self._data = data
        self._at = 0
        self._make = make
        self._persistent = persistent
        self._memo: dict[int, Any] = {}
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []

    def read(self) -> Any:
        """The object; FormatError names the byte of the operation that cannot be followed."""
        begin = 0
        try:
            while True:
                begin = self._at
                code = self._take(1)[0]
                if code == _STOP:
                    return self._pop()
                operation = _OPERATIONS.get(code)
                if operation is None:
                    raise FormatError(f"unsupported operation {bytes([code])!r}, which torch.save does not write")
                operation(self)
        except FormatError as error:
            raise FormatError(f"byte {begin} of the pickle: {error}") from None

    # The parts of operations.

    def _take(self, count: int) -> bytes:
        begin, self._at = self._at, self._at + count
        if self._at > len(self._data):
            raise FormatError(f"expected {count} more bytes, got {len(self._data) - begin}")
        return self._data[begin : self._at]

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _line(self) -> str:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise FormatError("expected a line, got the end of the pickle")
        line = self._data[self._at : end]
        self._at = end + 1
        return _text(line)

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        if not self._stack:
            raise FormatError("expected an object on the stack, got none")
        return self._stack.pop()

    def _top(self) -> Any:
        if not self._stack:
            raise FormatError("expected an object on the stack, got none")
        return self._stack[-1]

    def _pop_to_mark(self) -> list[Any]:
        if not self._marks:
            raise FormatError("expected a mark on the stack, got none")
        items, self._stack = self._stack, self._marks.pop()
        return items

    # The operations.

    def _protocol(self) -> None:
        if (protocol := self._take(1)[0]) not in PROTOCOLS:
            raise FormatError(f"expected protocol 2 to 5, got {protocol}")

    def _frame(self) -> None:
        if (size := self._number("<Q")) > len(self._data) - self._at:
            raise FormatError(f"expected a frame of {size} bytes, but {len(self._data) - self._at} are left")

    def _mark(self) -> None:
        self._marks.append(self._stack)
        self._stack = []

    def _drop(self) -> None:
        if self._stack or not self._marks:
            self._pop()
        else:
            self._pop_to_mark()

    def _drop_to_mark(self) -> None:
        self._pop_to_mark()

    def _long(self, form: str) -> None:
        if not 0 <= (size := self._number(form)) <= LONGEST_NUMBER:
            raise FormatError(f"expected an integer of at most {LONGEST_NUMBER} bytes, got {size}")
        self._push(int.from_bytes(self._take(size), "little", signed=True))

    def _tuple(self, count: int) -> None:
        items = [self._pop() for _ in range(count)]
        self._push(tuple(reversed(items)))

    def _append(self, items: Iterable[Any]) -> None:
        whole = self._top()
        if type(whole) is list:
            whole.extend(items)
        elif whole is not DROPPED:
            raise FormatError(f"expected a list to append to, got {_kind(whole)}")

    def _set_items(self, items: list[Any]) -> None:
        whole = self._top()
        if len(items) % 2:
            raise FormatError(f"expected pairs of keys and values, got {len(items)} objects")
        if type(whole) is dict:
            whole.update((key, value) for key, value in zip(items[::2], items[1::2], strict=True) if _is_key(key))
        elif whole is not DROPPED:
            raise FormatError(f"expected a dictionary to set items of, got {_kind(whole)}")

    def _set_item(self) -> None:
        value = self._pop()
        self._set_items([self._pop(), value])

    def _add_items(self) -> None:
        self._pop_to_mark()
        if (whole := self._top()) is not DROPPED:
            raise FormatError(f"expected a set to add to, got {_kind(whole)}")

    def _frozen_set(self) -> None:
        self._pop_to_mark()
        self._push(DROPPED)

    def _name_on_stack(self) -> None:
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise FormatError(f"expected names of a module and an object, got {_kind(module)} and {_kind(name)}")
        self._push(Name(module, name))

    def _call(self, arguments: Any, what: Any) -> None:
        if type(arguments) is not tuple:
            raise FormatError(f"expected a tuple of arguments, got {_kind(arguments)}")
        if what is DROPPED:
            self._push(DROPPED)
        elif type(what) is not Name:
            raise FormatError(f"expected the name of a type or function to call, got {_kind(what)}")
        elif what in _DICTIONARIES and not arguments:
            self._push({})
        else:
            self._push(self._make(what, arguments))

    def _call_with_names(self) -> None:
        self._pop()
        self._call(self._pop(), self._pop())

    def _build(self) -> None:
        state = self._pop()  # or attributes, which other objects here do not have
        if type(whole := self._top()) is Stateful:
            whole.state = state
        elif type(whole) is not dict and whole is not DROPPED:
            raise FormatError(f"expected an object that may have attributes, got {_kind(whole)}")

    def _put(self, place: int) -> None:
        if place >= len(self._data):  # a pickler numbers its objects from 0, and each takes a byte at least
            raise FormatError(f"expected a place in the memo below {len(self._data)}, got {place}")
        self._memo[place] = self._top()

    def _get(self, place: int) -> None:
        if place not in self._memo:
            raise FormatError(f"expected a place in the memo that was filled, got {place}")
        self._push(self._memo[place])


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise FormatError(f"expected text in UTF-8, got {data[:40]!r} ({error.reason})") from None


def _kind(value: object) -> str:
    return "an object that is not read" if value is DROPPED else type(value).__name__


def _is_key(key: object) -> bool:
    # Hashing a tuple of tuples of tuples ... can end the process, and hashes of large integers can be made to be equal.
    return type(key) is str or (type(key) is int and abs(key) < MOST_KEY)


def _sized(form: str, make: Callable[[bytes], Any]) -> Callable[[Reader], None]:
    return lambda reader: reader._push(make(reader._take(reader._number(form))))


_STOP = ord(".")
_OPERATIONS: dict[int, Callable[[Reader], None]] = {
    code[0]: operation
    for code, operation in {
        b"\x80": Reader._protocol,
        b"\x95": Reader._frame,
        b"(": Reader._mark,
        b"0": Reader._drop,
        b"1": Reader._drop_to_mark,
        b"2": lambda r: r._push(r._top()),
        b"N": lambda r: r._push(None),
        b"\x88": lambda r: r._push(True),
        b"\x89": lambda r: r._push(False),
        b"J": lambda r: r._push(r._number("<i")),
        b"K": lambda r: r._push(r._number("<B")),
        b"M": lambda r: r._push(r._number("<H")),
        b"G": lambda r: r._push(r._number(">d")),
        b"\x8a": lambda r: r._long("<B"),
        b"\x8b": lambda r: r._long("<i"),
        b"X": _sized("<I", _text),
        b"\x8c": _sized("<B", _text),
        b"\x8d": _sized("<Q", _text),
        b"B": _sized("<I", bytes),
        b"C": _sized("<B", bytes),
        b"\x8e": _sized("<Q", bytes),
        b"\x96": _sized("<Q", bytes),
        b")": lambda r: r._push(()),
        b"t": lambda r: r._push(tuple(r._pop_to_mark())),
        b"\x85": lambda r: r._tuple(1),
        b"\x86": lambda r: r._tuple(2),
        b"\x87": lambda r: r._tuple(3),
        b"]": lambda r: r._push([]),
        b"a": lambda r: r._append([r._pop()]),
        b"e": lambda r: r._append(r._pop_to_mark()),
        b"}": lambda r: r._push({}),
        b"s": Reader._set_item,
        b"u": lambda r: r._set_items(r._pop_to_mark()),
        b"\x8f": lambda r: r._push(DROPPED),
        b"\x90": Reader._add_items,
        b"\x91": Reader._frozen_set,
        b"c": lambda r: r._push(Name(r._line(), r._line())),
        b"\x93": Reader._name_on_stack,
        b"R": lambda r: r._call(r._pop(), r._pop()),
        b"\x81": lambda r: r._call(r._pop(), r._pop()),
        b"\x92": Reader._call_with_names,
        b"b": Reader._build,
        b"Q": lambda r: r._push(r._persistent(r._pop())),
        b"q": lambda r: r._put(r._number("<B")),
        b"r": lambda r: r._put(r._number("<I")),
        b"\x94": lambda r: r._put(len(r._memo)),
        b"h": lambda r: r._get(r._number("<B")),
        b"j": lambda r: r._get(r._number("<I")),
    }.items()
}
