"""What search means: words, queries, snippets, and where a text is put away."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.store.search import Query, clean, folded, locate, located, words

TEXT = st.text(max_size=80)
ANY = st.one_of(TEXT, st.text("ab \n\"\\'\0\ud800é😀\u0301ßİ½", max_size=60))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("Hello, World!", ["hello", "world"]),
        ("snake_case and kebab-case", ["snake", "case", "and", "kebab", "case"]),
        ("don't", ["don", "t"]),
        ("Café cafe\u0301 CAFÉ", ["cafe", "cafe", "cafe"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("ﬁle ＦＵＬＬ", ["file", "full"]),
        ("v2.0 2**80", ["v2", "0", "2", "80"]),
        ("東京へ", ["東京へ"]),
        ("a\0b\ud800c", ["a", "b", "c"]),
        ("%_*\"'()", []),
    ],
)
def test_words_are_runs_of_letters_and_digits_without_case_and_accents(text: str, found: list[str]) -> None:
    assert words(text) == found


@given(text=ANY)
@example(text="\u1e9eﬃ")
@example(text="ŉ ǰ ΐ")
def test_a_word_is_a_word_of_itself(text: str) -> None:
    for word in words(text):
        assert words(word) == [word]


@given(text=ANY)
@example(text="thanks🤖done \ue000 \u0e34")
def test_a_folded_text_leaves_an_index_nothing_to_decide(text: str) -> None:
    folded_text = folded(clean(text))

    assert all(char.isascii() or re.fullmatch(r"[^\W_]", char) for char in folded_text)
    assert words(folded_text) == words(text)


@given(text=ANY)
def test_a_text_has_each_of_its_words_and_the_beginnings_of_them(text: str) -> None:
    for word in words(text):
        assert Query.of(word).matches(text)
        assert Query.of(word[: len(word) // 2 + 1]).words == () or Query.of(
            word[: len(word) // 2 + 1]
        ).matches(text)


@given(left=st.text("ab ", max_size=20), right=st.text("ab ", max_size=20))
def test_a_text_has_all_its_words_at_once_and_in_a_row(left: str, right: str) -> None:
    found = words(f"{left} {right}")

    if found:
        assert Query.of(" ".join(found)).matches(f"{left} {right}")
        assert Query.of(" ".join(found), phrase=True).matches(f"{left} {right}")
        assert Query.of(" ".join(reversed(found))).matches(f"{left} {right}")


@pytest.mark.parametrize(
    ("query", "text", "whole", "phrase"),
    [
        ("big dog", "the big dog", True, True),
        ("big dog", "the big bad dog", True, False),
        ("dog big", "the big dog", True, False),
        ("big do", "the big dog", True, True),
        ("bi dog", "the big dog", False, False),
        ("the big dog here", "the big dog", False, False),
        ("dog", "hotdog", False, False),
        ("big big dog", "big dog", True, False),
        ("big big dog", "big big big dog", True, True),
    ],
)
def test_all_words_must_occur_and_those_of_a_phrase_in_a_row(
    query: str, text: str, whole: bool, phrase: bool
) -> None:
    assert Query.of(query).matches(text) is whole
    assert Query.of(query, phrase=True).matches(text) is phrase


@given(text=st.text(max_size=2_000), query=st.text(min_size=1, max_size=10))
def test_a_snippet_is_short_and_one_line(text: str, query: str) -> None:
    found = Query.of(query)

    if found.words:
        snippet = found.snippet(clean(text))
        assert len(snippet) <= 162
        assert snippet.split() == snippet.strip().split(" ") or not snippet.strip()


@given(
    before=st.lists(st.sampled_from(["lorem", "ipsum", "dolor"]), max_size=100),
    after=st.lists(st.sampled_from(["sit", "amet"]), max_size=100),
)
def test_a_snippet_shows_the_word_that_was_found(before: list[str], after: list[str]) -> None:
    text = " ".join([*before, "Nädel", *after])

    snippet = Query.of("nadel").snippet(text)

    assert "Nädel" in snippet
    assert snippet.startswith("…") == (len(" ".join(before)) + 1 > 40 and bool(before))


def test_a_snippet_of_a_short_text_is_the_text() -> None:
    assert Query.of("needle").snippet("a  needle\nin hay") == "a needle in hay"


@given(text=ANY)
def test_a_clean_text_can_be_kept_anywhere_and_stays_as_it_is(text: str) -> None:
    """L6"""
    cleaned = clean(text)

    assert cleaned.encode().decode() == cleaned
    assert "\0" not in cleaned
    assert clean(cleaned) == cleaned
    assert len(cleaned) == len(text)
    assert words(cleaned) == words(text)


@given(text=ANY, ascii=st.booleans(), before=st.text(max_size=10), extra=st.binary(max_size=10))
@example(text='He said "hello" \\ and\nleft the room', ascii=False, before="", extra=b"")
@example(text="naïve 😀 text that is long enough", ascii=True, before="n", extra=b"")
@example(text="\x7f\x80 control characters \u2028 inside", ascii=False, before="\\", extra=b"")
def test_a_text_that_was_put_away_comes_back(text: str, ascii: bool, before: str, extra: bytes) -> None:
    text = clean(text)
    bodies = [
        json.dumps({"a": before, "text": text, "b": text}, ensure_ascii=ascii).encode("utf-8", "replace"),
        json.dumps(before + text, ensure_ascii=ascii).encode("utf-8", "replace"),
        extra,
    ]

    for body in bodies:
        assert located(locate(text, body), body) == text


@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=16, max_size=200))
def test_a_text_that_is_in_its_data_is_not_kept_twice(text: str) -> None:
    data = json.dumps({"text": text}, ensure_ascii=False).encode()

    assert len(locate(text, data)) < 12


def test_a_text_that_is_not_in_its_data_is_kept() -> None:
    assert locate("not in there at all", b'{"text": "something"}') == b"=not in there at all"


def test_a_query_is_the_same_for_the_same_words() -> None:
    assert Query.of("Big, DOG") == Query.of("big dog")
    assert Query.of("big dog") != Query.of("big dog", phrase=True)
    assert Query.of("%*") == Query(())
