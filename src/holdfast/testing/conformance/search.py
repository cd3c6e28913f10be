"""Search: words in, events of one owner out; the text is never a query language."""

from __future__ import annotations

import pytest

from holdfast.errors import NotFound
from holdfast.store import Append, Redact, Store
from holdfast.store.search import Query
from holdfast.testing.build import a_conversation, a_key, said
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.topic import Topic


async def _found(
    store: Store, text: str, *, phrase: bool = False, owner: str = "ada"
) -> set[tuple[str, int]]:
    await store.settle()
    return {(hit.key.id, hit.seq) for hit in await store.search(owner, text, phrase=phrase, limit=100)}


ODD = (
    "\u00ad\u00b2\u00bd\u00df\u0130\u0131\u0149\u01f0\u02b0\u02bc\u0308\u0345\u0390\u03c2\u03a3\u0483\u0489"
    "\u05b4\u05d0\u064b\u0660\u0670\u06dd\u093f\u0947\u094d\u0967\u0e01\u0e34\u0e48\u0f39\u1100\u1161\u11a8\uac01"
    "\u13a0\uab70\u1c90\u1e9e\u1fb3\u200b\u200d\u2019\u203f\u20e3\u2103\u2116\u2122\u2126\u212a\u212b\u2167"
    "\u2460\u2474\u24b6\u2c6f\u3007\u3042\u3099\u30ac\u30fc\u3131\u337f\u33c2\u4e00\ua66f\ue000\ufb01\ufb1d"
    "\ufdfa\ufe0f\uff11\uff21\uff3f\uff76\uff9e\uffa1\ufffd\U00010400\U0001d400\U0001d7ce\U0001f130\U0001f600\U0001f916"
    "\U0001f3fd\U00020000\U000e0100"
)
"""Characters that case, accents, compatibility or the borders of words make special."""


class SearchRules(Topic):
    async def test_an_event_is_found_by_any_of_its_words(self, store: Store) -> None:
        await a_conversation(store, "trip", says=["A flight to Lisbon", "a hotel in Porto"])
        await a_conversation(store, "food", says=["lunch in Lisbon"])

        assert await _found(store, "lisbon") == {("trip", 1), ("food", 1)}
        assert await _found(store, "porto") == {("trip", 2)}
        assert await _found(store, "madrid") == set()

    async def test_all_words_must_occur_in_any_order(self, store: Store) -> None:
        await a_conversation(store, says=["a flight to Lisbon", "Lisbon by train", "a flight to Porto"])

        assert await _found(store, "lisbon flight") == {("c-1", 1)}
        assert await _found(store, "flight lisbon flight") == {("c-1", 1)}

    async def test_the_last_word_may_be_the_beginning_of_one(self, store: Store) -> None:
        await a_conversation(store, says=["flights to Lisbon", "a flight"])

        assert await _found(store, "flig") == {("c-1", 1), ("c-1", 2)}
        assert await _found(store, "lisbon flig") == {("c-1", 1)}
        assert await _found(store, "flig lisbon") == set()
        assert await _found(store, "light") == set()

    async def test_the_words_of_a_phrase_stand_next_to_each_other(self, store: Store) -> None:
        await a_conversation(
            store, says=["the flight to Lisbon, at noon", "to Lisbon the flight", "the flight, to: LISBONESE"]
        )

        assert await _found(store, "flight to lisbon", phrase=True) == {("c-1", 1), ("c-1", 3)}
        assert await _found(store, "flight to lisbon at", phrase=True) == {("c-1", 1)}
        assert await _found(store, "flight lisbon", phrase=True) == set()
        assert await _found(store, "the fli", phrase=True) == {("c-1", 1), ("c-1", 2), ("c-1", 3)}

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("Ein Café", "cafe"),
            ("ein cafe", "CAFÉ"),
            ("cafe\u0301 crème", "café creme"),
            ("STRASSE", "straße"),
            ("große Straße", "strasse"),
            ("İstanbul", "istanbul"),
            ("the ﬁle", "file"),
            ("ＦＵＬＬ width", "full"),
            ("Żółć", "zołc"),
            ("東京 へ", "東京"),
            ("новый Год", "год"),
        ],
    )
    async def test_case_and_accents_do_not_matter(self, store: Store, text: str, query: str) -> None:
        await a_conversation(store, says=[text, "something else"])

        assert await _found(store, query) == {("c-1", 1)}

    async def test_what_is_a_word_is_the_same_everywhere(self, store: Store) -> None:
        texts = [f"ab{odd}cd {odd}ef gh{odd} {odd}" for odd in ODD]
        await a_conversation(store, says=texts)

        for odd in ODD:
            for query in (f"ab{odd}cd", f"{odd}ef", f"gh{odd}", odd, f"{odd}e", f"b{odd}"):
                words = Query.of(query)
                expected = {
                    ("c-1", seq) for seq, text in enumerate(texts, 1) if words.words and words.matches(text)
                }
                assert await _found(store, query) == expected, ascii(query)

    @pytest.mark.parametrize(
        "query",
        [
            "%",
            "_",
            "*",
            '"',
            "''",
            "%%",
            "?",
            "\\",
            ".",
            "( )",
            "",
            " ",
            "\0",
            "\ud800",
            "😀",
            "- -",
            "^",
            "{}",
            "+",
        ],
    )
    async def test_a_query_without_a_word_finds_nothing(self, store: Store, query: str) -> None:
        """L13: `%`, `_` and quotes are text."""
        await a_conversation(store, says=["hello", "100% of _it_ 'all'"])

        assert await _found(store, query) == set()
        assert await _found(store, query, phrase=True) == set()

    @pytest.mark.parametrize(
        ("query", "words"),
        [
            ("hello OR nothing", "hello or nothing"),
            ("hello AND nothing", "hello and nothing"),
            ("NOT hello", "not hello"),
            ("NEAR(hello world)", "near hello world"),
            ("NEAR(", "near"),
            ("hello NEAR/2 world", "hello near 2 world"),
            ("text:hello", "text hello"),
            ('"hello', "hello"),
            ('hel"lo', "hel lo"),
            ("'; DROP TABLE events; --", "drop table events"),
            ("hello* world", "hello world"),
            ("-hello", "hello"),
            ("^hello", "hello"),
            ("{hello}", "hello"),
            ("100%", "100"),
            ("snake_case", "snake case"),
            ("hello & !world | ( <-> )", "hello world"),
            ("owner:eve hello", "owner eve hello"),
        ],
    )
    async def test_operators_of_query_languages_are_text(self, store: Store, query: str, words: str) -> None:
        """L13"""
        key = await a_conversation(store, says=[words, "hello", "world", "nothing", "100", "snakeXcase"])

        assert ("c-1", 1) in await _found(store, query)
        assert ("c-1", 1) in await _found(store, query, phrase=True)
        await store.delete(key)
        assert await _found(store, query) == set()

    async def test_a_word_that_looks_like_an_operator_must_occur(self, store: Store) -> None:
        """L13"""
        await a_conversation(store, says=["hello", "world", "hello world"])

        assert await _found(store, "hello OR world") == set()
        assert await _found(store, "hello NOT world") == set()
        assert await _found(store, "hello AND world") == set()
        assert await _found(store, "hel* world") == set()

    async def test_only_events_of_this_owner_are_found(self, store: Store) -> None:
        """L13"""
        await a_conversation(store, owner="ada", says=["my secret"])
        await a_conversation(store, owner="eve", says=["her secret", "another secret"])
        await a_conversation(store, owner="ad", says=["a secret"])
        await a_conversation(store, owner="ada2", says=["a secret"])

        await store.settle()
        [hit] = await store.search("ada", "secret")

        assert (hit.key, hit.seq) == (a_key(owner="ada"), 1)
        assert await _found(store, "secret", owner="nobody") == set()

    async def test_hits_are_limited_and_in_a_fixed_order(self, store: Store, clock: FakeClock) -> None:
        """L13"""
        for number in range(10):
            await a_conversation(store, f"c-{number}", says=[f"hello {n} " * n for n in range(1, 4)])
            clock.advance(seconds=number % 2)
        await store.settle()

        hits = await store.search("ada", "hello", limit=100)

        assert len(hits) == 30
        assert await store.search("ada", "hello", limit=100) == hits
        for limit in (1, 7, 20):
            assert await store.search("ada", "hello", limit=limit) == hits[:limit]
        assert await store.search("ada", "hello") == hits[:20]

    async def test_an_event_is_found_by_its_search_text_alone(self, store: Store) -> None:
        key = await a_conversation(store)

        await store.commit(
            key,
            [
                Append("message", b'{"text": "inside"}'),
                Append("message", b'{"text": "inside"}', text="outside"),
                Append("message", b'{"text": "inside"}', text=""),
            ],
        )

        assert await _found(store, "inside") == set()
        assert await _found(store, "outside") == {("c-1", 2)}

    async def test_search_texts_come_back(self, store: Store, other: Store) -> None:
        long = "word " * 1000
        key = await a_conversation(store)
        await store.commit(
            key,
            [
                said("hello"),
                Append("note", b'{"text": "in the data"}', text="in the data"),
                Append("note", b'"other"', text='"quotes" \\ and \n lines 😀'),
                Append("note", b'"nothing"'),
                Append("note", b'"empty"', text=""),
                Append("note", b'"long"', text=long),
            ],
        )
        await store.commit(key, [Redact(2)])

        texts = await other.texts(key)

        assert texts == {1: "hello", 3: '"quotes" \\ and \n lines 😀', 6: long}
        assert await other.texts(key, after=1, before=6) == {3: texts[3]}
        assert await other.texts(key, after=6) == await other.texts(key, after=-5, before=1) == {}
        with pytest.raises(NotFound):
            await other.texts(a_key("missing"))

    async def test_a_hit_shows_the_word_in_its_context(self, store: Store) -> None:
        long = "before " * 500 + "the golden needle here " + "after " * 500
        await a_conversation(store, says=["a short needle", long])
        await store.settle()

        snippets = {hit.seq: hit.snippet for hit in await store.search("ada", "needle")}

        assert snippets[1] == "a short needle"
        assert "golden needle here" in snippets[2]
        assert len(snippets[2]) < 1_000

    @pytest.mark.parametrize(
        "text", ["a\0b secret", "lone \ud800 secret", "\U0010ffff secret", "new\nline\tsecret"]
    )
    async def test_a_text_with_characters_that_some_store_can_not_keep_is_still_found(
        self, store: Store, text: str
    ) -> None:
        """L6"""
        key = await a_conversation(store)

        await store.commit(key, [Append("message", b"{}", text=text)])

        assert await _found(store, "secret") == {("c-1", 1)}

    async def test_long_texts_and_many_words_are_found(self, store: Store) -> None:
        words = [f"word{n}" for n in range(2_000)]
        await a_conversation(store, says=[" ".join(words), "x" * 100_000])

        assert await _found(store, "word1999") == {("c-1", 1)}
        assert await _found(store, " ".join(words[:200])) == {("c-1", 1)}
        assert await _found(store, " ".join(words[500:700]), phrase=True) == {("c-1", 1)}
        assert await _found(store, "x" * 50_000) == {("c-1", 2)}

    async def test_another_instance_finds_it_too(self, store: Store, other: Store) -> None:
        await a_conversation(store, says=["hello"])
        await store.settle()

        assert await _found(other, "hello") == {("c-1", 1)}

    async def test_a_text_that_is_part_of_its_data_is_found_and_shown(self, store: Store) -> None:
        text = 'He said "ünïcödé" \\ and\nleft: a long enough text 😀'
        await a_conversation(store, ops=[said(text), Append("message", b"{}", text=text)])
        await store.settle()

        hits = await store.search("ada", "unicode long")

        assert {hit.seq for hit in hits} == {1, 2}
        assert hits[0].snippet == hits[1].snippet
