"""Names: what is one, and what is refused with which words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput, InvalidKey
from holdfast.ids import MAX_NAME_BYTES, ConversationKey, check_name

LEGAL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=256)


@given(name=LEGAL)
def test_any_text_of_up_to_1024_bytes_without_nul_is_a_name(name: str) -> None:
    """L14"""
    check_name("owner", name)

    assert ConversationKey(name, "c-1").owner == name
    assert ConversationKey("ada", name).id == name


@given(
    before=st.text(max_size=50), after=st.text(max_size=50), bad=st.sampled_from(["\0", "\ud800", "\udfff"])
)
def test_a_name_with_nul_or_a_lone_surrogate_anywhere_is_refused(before: str, after: str, bad: str) -> None:
    """L14"""
    with pytest.raises(InvalidKey):
        check_name("owner", before + bad + after)


@pytest.mark.parametrize("char", ["x", "é", "東", "😀"])
def test_the_limit_counts_bytes_and_not_characters(char: str) -> None:
    """L14"""
    fits = char * (MAX_NAME_BYTES // len(char.encode()))

    check_name("owner", fits)

    with pytest.raises(InvalidKey, match="at most 1,024"):
        check_name("owner", fits + char)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "must not be empty"),
        ("a\0b", "must not contain NUL"),
        ("\ud800", "lone surrogate"),
        ("x" * 1025, "has 1,025 bytes"),
        (None, "must be a string, not NoneType"),
        (b"a", "must be a string, not bytes"),
        (7, "must be a string, not int"),
    ],
)
def test_a_name_is_refused_with_its_field_and_the_reason(value: Any, why: str) -> None:
    with pytest.raises(InvalidKey, match=why) as caught:
        check_name("record key", value)

    assert caught.value.field == "record key"
    assert str(caught.value).startswith("record key ")
    assert isinstance(caught.value, InvalidInput)
    assert isinstance(caught.value, ValueError)


def test_a_subclass_of_str_is_no_name() -> None:
    class Name(str):
        pass

    with pytest.raises(InvalidKey):
        check_name("owner", Name("ada"))


def test_an_empty_name_passes_only_where_it_may() -> None:
    check_name("agent", "", empty=True)

    with pytest.raises(InvalidKey):
        check_name("agent", "\0", empty=True)


@pytest.mark.parametrize(("owner", "id", "field"), [("", "c-1", "owner"), ("ada", "", "conversation id")])
def test_a_key_says_which_half_is_wrong(owner: str, id: str, field: str) -> None:
    with pytest.raises(InvalidKey) as caught:
        ConversationKey(owner, id)

    assert caught.value.field == field


def test_keys_are_equal_and_ordered_by_owner_and_then_id() -> None:
    keys = [ConversationKey("b", "a"), ConversationKey("a", "b"), ConversationKey("a", "a")]

    assert sorted(keys) == [ConversationKey("a", "a"), ConversationKey("a", "b"), ConversationKey("b", "a")]
    assert len({*keys, ConversationKey("a", "a")}) == 3


def test_a_key_can_not_be_changed() -> None:
    key: Any = ConversationKey("ada", "c-1")

    with pytest.raises(AttributeError):
        key.owner = "eve"


def test_a_key_shows_where_its_owner_ends() -> None:
    """L14: two keys never look the same in a log."""
    assert str(ConversationKey("a'/'b", "c")) != str(ConversationKey("a", "b'/'c"))
