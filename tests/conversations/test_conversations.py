"""The door: create, find, change and remove conversations."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.conversations.taps import tapped

from holdfast.conversations import PurgeProgress
from holdfast.errors import (
    InvalidInput,
    InvalidPayload,
    NotFound,
    StaleHeader,
)
from holdfast.hub import Hub
from holdfast.model import Erased, Failure, Message, Text, ToolCall, ToolResult, Usage, UsageReport
from holdfast.store import PutRecord, Tag
from holdfast.testing import FakeClock, StoreKit
from holdfast.views import Price
from holdfast.views.display import CallContent

pytestmark = pytest.mark.anyio

DAY = 86_400


async def test_a_conversation_has_what_it_was_created_with(hub: Hub, clock: FakeClock) -> None:
    """S10"""
    made = await hub.conversations.create("ada", "c-1", title="A trip", agent="guide", metadata={"n": 1})
    other = await hub.conversations.create("ada")

    assert await hub.conversations.get("ada", "c-1") == made
    assert (made.id, made.title, made.agent, made.metadata) == ("c-1", "A trip", "guide", {"n": 1})
    assert (made.status, made.created_at, made.last_seq) == ("idle", clock(), 0)
    assert other.id != "c-1"
    with pytest.raises(NotFound, match="no conversation 'c-2' for this owner"):
        await hub.conversations.get("ada", "c-2")


async def test_metadata_that_is_no_json_creates_nothing(hub: Hub) -> None:
    with pytest.raises(InvalidPayload):
        await hub.conversations.create("ada", "c-1", metadata={"a": object()})

    assert await hub.conversations.get_or_none("ada", "c-1") is None


async def test_the_most_active_come_first_and_pages_follow_each_other(hub: Hub, clock: FakeClock) -> None:
    """L10, L11: the order is by activity, which moves with each message."""
    for number in range(5):
        await hub.conversations.create("ada", f"c-{number}")
        clock.advance(seconds=1)
    await (await hub.open("ada", "c-1")).append("Hi")

    first = await hub.conversations.list("ada", limit=2)
    await hub.conversations.create("ada", "newcomer")
    rest = await hub.conversations.list("ada", before=first.older, limit=10)

    assert [c.id for c in first.conversations] == ["c-1", "c-4"]
    assert [c.id for c in rest.conversations] == ["c-3", "c-2", "c-0"]
    assert rest.older is None


async def test_a_list_reads_no_events(hub: Hub) -> None:
    """L10"""
    await (await hub.open("ada", "c-1")).append("Hi")

    asked = tapped(hub.store)
    await hub.conversations.list("ada", metadata={"a": 1})

    assert {name for name, *_ in asked} == {"headers"}


async def test_lists_filter_by_status_metadata_and_age(hub: Hub, clock: FakeClock) -> None:
    for number in range(6):
        await hub.conversations.create(
            "ada", f"c-{number}", metadata={"even": number % 2 == 0, "team": {"n": 1}}
        )
        clock.advance(seconds=DAY)
    await hub.conversations.archive("ada", "c-4")

    async def ids(**options: Any) -> list[str]:
        return [c.id for c in (await hub.conversations.list("ada", **options)).conversations]

    assert await ids() == ["c-5", "c-3", "c-2", "c-1", "c-0"]
    assert await ids(status="archived") == ["c-4"]
    assert await ids(status="idle", metadata={"even": True}) == ["c-2", "c-0"]
    assert await ids(metadata={"even": True, "team": {"n": 1}}, limit=1) == ["c-2"]
    assert await ids(metadata={"none": None}) == []
    # c-5 was last active a day ago, c-3 three days ago: exactly that age is neither newer nor older.
    assert await ids(newer_than=timedelta(days=3)) == ["c-5"]
    assert await ids(older_than=timedelta(days=3)) == ["c-2", "c-1", "c-0"]
    assert await ids(older_than=3 * DAY, newer_than=5 * DAY) == ["c-2"]
    assert await ids(newer_than=0) == []


async def test_a_filtered_list_pages_without_gaps(hub: Hub, clock: FakeClock) -> None:
    for number in range(9):
        await hub.conversations.create("ada", f"c-{number}", metadata={"even": number % 2 == 0})

    found, cursor = [], None
    while True:
        listing = await hub.conversations.list("ada", metadata={"even": True}, before=cursor, limit=2)
        found += [c.id for c in listing.conversations]
        if (cursor := listing.older) is None:
            break

    assert found == ["c-8", "c-6", "c-4", "c-2", "c-0"]


@pytest.mark.parametrize(
    "options",
    [{"limit": 0}, {"before": "nonsense"}, {"before": "5."}, {"newer_than": -1}, {"older_than": "old"}],
)
async def test_a_list_that_cannot_be_made_is_refused(hub: Hub, options: Any) -> None:
    with pytest.raises(InvalidInput):
        await hub.conversations.list("ada", **options)


async def test_a_new_title_stands_in_the_list_and_in_the_log(hub: Hub) -> None:
    await hub.conversations.create("ada", "c-1", title="Old")

    assert (await hub.conversations.rename("ada", "c-1", "New")).title == "New"

    [event] = await hub.store.events((await hub.store.headers("ada"))[0].key)
    assert (event.type, event.data) == ("state", b'{"title":"New","actor":"ada"}')


async def test_metadata_is_changed_key_by_key(hub: Hub) -> None:
    await hub.conversations.create("ada", "c-1", metadata={"a": 1, "b": 2})

    changed = await hub.conversations.update_metadata("ada", "c-1", {"b": 3, "c": 4}, unset=["a"])

    assert changed.metadata == {"b": 3, "c": 4}
    assert (await hub.conversations.get("ada", "c-1")).metadata == {"b": 3, "c": 4}


async def test_settings_are_apart_from_metadata(hub: Hub) -> None:
    """A3"""
    made = await hub.conversations.create("ada", "c-1", metadata={"a": 1}, settings={"model": "big"})
    await hub.audit.enable("ada", "c-1")

    changed = await hub.conversations.update_settings("ada", "c-1", {"turns": 5}, unset=["model"])

    assert (made.settings, changed.settings) == ({"model": "big"}, {"audit": True, "turns": 5})
    assert changed.metadata == {"a": 1}


async def test_writers_of_metadata_who_race_lose_nothing(hub: Hub, kit: StoreKit, clock: FakeClock) -> None:
    """L46"""
    await hub.conversations.create("ada", "c-1")
    async with Hub(kit.connect(clock=clock), clock=clock) as other:
        await asyncio.gather(
            *(
                door.conversations.update_metadata("ada", "c-1", {f"{number}": number})
                for number, door in enumerate([hub, other] * 8)
            )
        )

    assert (await hub.conversations.get("ada", "c-1")).metadata == {f"{n}": n for n in range(16)}


async def test_metadata_of_a_version_that_is_gone_is_not_written(hub: Hub) -> None:
    """L2: a number guards it, and a message does not change it."""
    seen = await hub.conversations.create("ada", "c-1")
    await (await hub.open("ada", "c-1")).append("Hi")

    await hub.conversations.update_metadata("ada", "c-1", {"a": 1}, version=seen.version)
    with pytest.raises(StaleHeader):
        await hub.conversations.update_metadata("ada", "c-1", {"a": 2}, version=seen.version)

    assert (await hub.conversations.get("ada", "c-1")).metadata == {"a": 1}


async def test_an_archived_conversation_is_still_there(hub: Hub) -> None:
    await (await hub.open("ada", "c-1")).append("a secret thing")

    assert (await hub.conversations.archive("ada", "c-1")).status == "archived"
    hits = await hub.conversations.search("ada", "secret")

    assert [hit.seq for hit in hits] == [1]
    assert (await hub.conversations.unarchive("ada", "c-1")).status == "idle"
    assert len((await hub.conversations.list("ada")).conversations) == 1


async def test_delete_counts_what_is_gone_and_erase_takes_everything(hub: Hub) -> None:
    for id in ("c-1", "c-2", "c-3"):
        await (await hub.open("ada", id)).append(
            "Hi", Message("m2", "assistant", (ToolCall("m2/0", "find"),))
        )
    await (await hub.open("eve", "c-1")).append("Hi")

    assert await hub.conversations.delete("ada", "c-1") == Erased(1, 2, 1)
    with pytest.raises(NotFound):
        await hub.conversations.delete("ada", "c-1")
    assert await hub.conversations.erase("ada") == Erased(2, 4, 2)

    assert (await hub.conversations.list("ada")).conversations == ()
    assert len((await hub.conversations.list("eve")).conversations) == 1


async def test_search_finds_what_people_saw_and_takes_signs_as_text(hub: Hub) -> None:
    """S28, L13"""
    conversation = await hub.open("ada", "c-1")
    await conversation.append("a 100% sure_thing for O'Brien")
    await (await hub.open("eve", "c-1")).append("a sure thing")
    await hub.store.settle()

    assert [hit.seq for hit in await hub.conversations.search("ada", "sure")] == [1]
    for term in ("%", "_", "'; DROP TABLE events; --", '"'):
        assert await hub.conversations.search("ada", term) in ([], ())


async def test_rows_come_newest_page_first_and_survive_a_summary(hub: Hub) -> None:
    """S26"""
    conversation = await hub.open("ada", "c-1")
    for number in range(10):
        await conversation.append(f"message {number}")
        await conversation.append(UsageReport("title", Usage(1, 1)))
    await conversation.summarise("all of it", to_seq=20)

    found: list[str] = []
    cursor = None
    while True:
        page = await hub.conversations.rows("ada", "c-1", before=cursor, limit=3)
        found = [row.content.text for row in page.rows] + found  # type: ignore[union-attr]
        if (cursor := page.older) is None:
            break

    assert found == [f"message {number}" for number in range(10)]


async def test_an_old_page_shows_where_calls_ended(hub: Hub) -> None:
    """S22: also a call that failed in the commit that opened it, and one that a fork inherited."""
    conversation = await hub.open("ada", "c-1")
    calls = tuple(ToolCall(f"m1/{n}", "find") for n in range(4))
    no = ToolResult("m1/1", "error", failure=Failure("no", "no"))
    await conversation.append(Message("m1", "assistant", calls), ToolResult("m1/0", "ok"), no)
    await conversation.append(ToolResult("m1/2", "cancelled"), "thanks")
    await hub.calls.interrupt("ada", "c-1", "m1/3")
    await hub.conversations.fork("ada", "c-1", new_id="fork")

    async def cards(id: str) -> list[str]:
        page = await hub.conversations.rows("ada", id, before="2.0", limit=4)
        return [row.content.status for row in page.rows if isinstance(row.content, CallContent)]

    assert await cards("c-1") == ["completed", "failed", "cancelled", "interrupted"]
    assert await cards("fork") == ["completed", "failed", "cancelled", "cancelled"]


async def test_usage_is_counted_by_conversation_and_by_owner(hub: Hub) -> None:
    """X2: what a fork inherited does not count twice."""
    prices = {"big": Price(input=1, output=2)}
    for id in ("c-1", "c-2"):
        conversation = await hub.open("ada", id)
        await conversation.append(
            "Hi", Message("m1", "assistant", (Text("Hi"),), model="big", usage=Usage(100, 10))
        )
        await conversation.append(UsageReport("title", Usage(5, 5, cost=7), "small"))
    await hub.conversations.fork("ada", "c-1", new_id="fork")

    one = await hub.conversations.usage("ada", "c-1", prices=prices)
    fork = await hub.conversations.usage("ada", "fork")
    total = await hub.conversations.total_usage("ada", prices=prices)

    assert (one.total.input_tokens, one.total.cost, list(one.by_turn)) == (105, 120_007, [1])
    assert fork.total == Usage()
    assert (total.total.input_tokens, total.total.cost) == (210, 240_014)
    assert total.by_model["small"] == Usage(10, 10, cost=14)
    assert not total.unpriced
    assert (await hub.conversations.total_usage("eve")).total == Usage()


async def test_old_conversations_are_purged_after_a_dry_run(hub: Hub, clock: FakeClock) -> None:
    """S15, L11"""
    for number in range(6):
        await (await hub.open("ada", f"c-{number}")).append("Hi")
        clock.advance(seconds=DAY)
    await (await hub.open("ada", "c-0")).append("I am back")
    told: list[PurgeProgress] = []

    planned = await hub.conversations.purge("ada", older_than=timedelta(days=3))
    done = await hub.conversations.purge(
        "ada", older_than=3 * DAY, keep=4, dry_run=False, on_progress=told.append
    )

    assert (planned.ids, planned.erased, planned.dry_run) == (("c-2", "c-1"), Erased(), True)
    assert (done.ids, done.erased) == (("c-2", "c-1"), Erased(2, 2))
    assert told == [PurgeProgress(1, 2), PurgeProgress(2, 2)]
    assert [c.id for c in (await hub.conversations.list("ada")).conversations] == ["c-0", "c-5", "c-4", "c-3"]


async def test_a_purge_keeps_as_many_as_it_is_told_and_what_an_agent_works_on(
    hub: Hub, clock: FakeClock
) -> None:
    for number in range(4):
        await (await hub.open("ada", f"c-{number}")).append("Hi")
        clock.advance(seconds=DAY)
    [held] = [header.key for header in await hub.store.headers("ada") if header.key.id == "c-1"]
    await hub.store.acquire(held, "worker", ttl=DAY)

    done = await hub.conversations.purge("ada", older_than=0, keep=2, dry_run=False)

    assert done.ids == ("c-0",)
    with pytest.raises(InvalidInput):
        await hub.conversations.purge("ada", older_than=-1)
    with pytest.raises(InvalidInput):
        await hub.conversations.purge("ada", older_than=1, keep=-1)


async def test_a_conversation_that_becomes_active_while_others_are_purged_stays(
    hub: Hub, clock: FakeClock
) -> None:
    """L11"""
    for number in range(3):
        await (await hub.open("ada", f"c-{number}")).append("Hi")
    back = await hub.open("ada", "c-0")
    clock.advance(seconds=10 * DAY)
    written: list[Any] = []

    def revive(_: PurgeProgress) -> None:
        if not written:
            written.append(asyncio.ensure_future(back.append("wait for me")))

    first_delete = hub.store.delete

    async def slow_delete(*args: Any, **kwargs: Any) -> Erased:
        if written:
            await written[0]
        return await first_delete(*args, **kwargs)

    hub.store.delete = slow_delete  # type: ignore[method-assign]
    done = await hub.conversations.purge("ada", older_than=DAY, dry_run=False, on_progress=revive)

    assert done.ids == ("c-2", "c-1")
    assert [c.id for c in (await hub.conversations.list("ada")).conversations] == ["c-0"]


async def test_one_purged_conversation_takes_all_it_had_with_it(hub: Hub, clock: FakeClock) -> None:
    """S15: with cascade."""
    await (await hub.open("ada", "c-1")).append(Message("m1", "assistant", (ToolCall("m1/0", "find"),)))
    [header] = await hub.store.headers("ada")
    await hub.store.commit(header.key, [PutRecord("media", "x", b"x"), Tag("topic", "travel")])
    clock.advance(seconds=1)

    done = await hub.conversations.purge("ada", older_than=0, dry_run=False)

    assert done.erased == Erased(1, 1, 1, 1, 1)
