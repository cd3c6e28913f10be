"""
What search means, the same on every backend.

Words are runs of letters and digits, without case and accents. A backend with an index of its own
gives it ``folded`` texts, and asks it for the words of a ``Query``, so that all find the same.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Self

import msgspec

_WORD = re.compile(r"[^\W_]+")
_SPLIT = re.compile(r"[\W_]")
_ACCENTS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")
_ASCII = bytes(range(128))
_SNIPPET = 160
_SHORT = 16

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(str).decode


def folded(text: str) -> str:
    """A text in which an index finds our words if it splits at what is no letter or digit, and ignores case."""
    if text.isascii():
        return text
    for char in set(text.encode().translate(None, _ASCII).decode()):
        if (plain := _fold(char)) != char:
            text = text.replace(char, plain)
    return text


def words(text: str) -> list[str]:
    """The words of a text, in order, as search compares them."""
    return _WORD.findall(folded(clean(text)).casefold())


@lru_cache(4096)
def _fold(char: str) -> str:
    for _ in range(2):
        char = _ACCENTS.sub("", unicodedata.normalize("NFKD", char)).casefold()
    # What a letter is, an index knows from older tables: without a space, 🤖 would be part of a word.
    return _SPLIT.sub(" ", char)


class Query(msgspec.Struct, frozen=True):
    """The words that must occur; the last may be the beginning of one."""

    words: tuple[str, ...]
    phrase: bool = False

    @classmethod
    def of(cls, text: str, *, phrase: bool = False) -> Self:
        """Read a person's text as a query: its words, and nothing else in it, count."""
        return cls(tuple(words(text)), phrase)

    def matches(self, text: str) -> bool:
        """Whether a text has the words, as the contract of ``Store.search`` says."""
        have = words(text)
        *whole, last = self.words
        if self.phrase:
            n = len(self.words)
            return any(
                have[i : i + n - 1] == whole and have[i + n - 1].startswith(last)
                for i in range(len(have) - n + 1)
            )
        return set(whole) <= set(have) and any(w.startswith(last) for w in have)

    def snippet(self, text: str) -> str:
        """The part of a text around the first of the words, for people."""
        start = 0
        for match in _WORD.finditer(text):
            if any(self._is(word) for word in words(match.group())):
                start = max(0, match.start() - _SNIPPET // 4)
                break
        end = start + _SNIPPET
        body = " ".join(text[start:end].split())
        return f"{'…' if start else ''}{body}{'…' if end < len(text) else ''}"

    def _is(self, word: str) -> bool:
        return word in self.words or word.startswith(self.words[-1])


def clean(text: str) -> str:
    """Search text as every backend can keep it: without NUL and lone surrogates."""
    if "\0" in text:
        text = text.replace("\0", " ")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def locate(text: str, data: bytes) -> bytes:
    """
    Search text in as few bytes as possible: where it stands inside the event's own data.

    The text of a message is nearly always a string in its JSON; a copy would double the log.
    Otherwise the text itself is kept. ``located`` gives it back.
    """
    needle = _encode(text)[1:-1]
    if len(needle) >= _SHORT and (at := data.find(needle)) >= 0:
        return b"@%d+%d" % (at, len(needle))
    return b"=" + text.encode()


def located(where: bytes, data: bytes) -> str:
    """The search text that ``locate`` put away."""
    if where[:1] == b"=":
        return where[1:].decode()
    at, length = map(int, where[1:].split(b"+"))
    return _decode(b'"' + data[at : at + length] + b'"')
