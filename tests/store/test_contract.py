"""Arguments that can never work are refused by the contract, before a backend sees them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.errors import InvalidInput, TooLarge
from holdfast.ids import ConversationKey
from holdfast.model.records import Lease
from holdfast.store import Append, Redact, SetHeader, Store, connect

KEY = ConversationKey("ada", "c-1")
LEASE = Lease(KEY, "holder", 1, 1)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.header("c-1"),
        lambda s: s.events(("ada", "c-1")),
        lambda s: s.events(KEY, after=1.5),
        lambda s: s.events(KEY, limit=2**70),
        lambda s: s.headers("ada", before=(2**70, "c-1")),
        lambda s: s.search("ada", None),
        lambda s: s.release(LEASE, defer=-5),
        lambda s: s.release(LEASE, defer=float("nan")),
        lambda s: s.release(LEASE, defer="soon"),
        lambda s: s.fork(KEY, "c-2", at=True),
        lambda s: s.delete(KEY, when="now"),
        lambda s: s.acquire("c-1", "holder", ttl=1),
    ],
)
async def test_an_argument_of_the_wrong_kind_is_refused(call: Any) -> None:
    async with connect("memory://") as store:
        await store.commit(KEY, [Append("notice", b"{}")], create=SetHeader())

        with pytest.raises(InvalidInput):
            await call(store)


async def test_the_operations_of_a_fork_are_limited_like_a_commit() -> None:
    async with connect("memory://") as store:
        await store.commit(KEY, [], create=SetHeader())
        large = b'"' + b"x" * store.limits.max_commit + b'"'

        with pytest.raises(TooLarge):
            await store.fork(KEY, "c-2", ops=[Append("notice", large)])


@pytest.mark.parametrize("url", ["memory://", "sqlite:///a.db"])
async def test_an_event_that_only_calls_itself_redacted_is_redacted(
    url: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with connect(url) as store:
        await store.commit(KEY, [Append("redacted", b'"the secret"', text="the secret")], create=SetHeader())

        await store.commit(KEY, [Redact(1)])

        assert b"secret" not in (await store.events(KEY))[0].data
        assert await store.search("ada", "secret") == []


async def test_a_wait_for_news_that_times_out_can_be_repeated() -> None:
    async with connect("memory://") as store, store.watch([KEY]) as notices:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(notices), 0.001)
        await _change(store)

        notice = await asyncio.wait_for(anext(notices), 5)

        assert notice.key == KEY


async def _change(store: Store) -> None:
    await store.commit(KEY, [Append("notice", b"{}")], create=SetHeader())
