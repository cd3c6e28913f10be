"""URLs of the objects store, and what is in the place they name."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import obstore
import pytest
from obstore.store import MemoryStore

from holdfast.errors import (
    InvalidInput,
    NotAStore,
    SchemaOutdated,
    SchemaTooNew,
    StoreError,
    StoreFull,
    StoreUnavailable,
    WeakerThanAsked,
)
from holdfast.store import Append, ConversationKey, SetHeader, connect
from holdfast.store.objects import ObjectsStore, opening
from holdfast.store.objects.bucket import Bucket, translate
from holdfast.store.objects.opening import Marker, open_bucket
from holdfast.testing.build import noted
from holdfast.testing.conformance.owners import HOSTILE

from .objects_taps import TappedStore, names

KEY = ConversationKey("ada", "c-1")

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket",
        "s3://bucket/",
        "s3://bucket/some/prefix",
        "s3://bucket/some%20prefix?endpoint=https://minio.example.com&region=eu-west-1&timeout=3&poll=0.5",
        "s3://bucket?endpoint=http://localhost:9000",
        "s3://bucket?endpoint=http://10.0.0.1:9000&allow_http=true",
        "gs://bucket/prefix",
        "gs://bucket/prefix?endpoint=https://storage.example.com",
        "az://container/prefix",
        "s3://bucket?durability=replicated",
    ],
)
def test_a_service_is_replicated(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")

    store = connect(url)

    assert isinstance(store, ObjectsStore)
    assert isinstance(store._bucket(), Bucket)
    assert (store.limits.durability, store.limits.signals) == ("replicated", "process")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("s3://", "must name a bucket"),
        ("s3:///prefix", "must name a bucket"),
        ("s3://me:secret@bucket/prefix", "environment"),
        ("s3://bucket/a/../b", "no .."),
        ("s3://bucket/a//b", "no empty parts"),
        ("s3://bucket?endpoint=http://10.0.0.1:9000", "no TLS"),
        ("s3://bucket?endpoint=http://example.com", "allow_http"),
        ("s3://bucket?allow_http=maybe", "allow_http"),
        ("s3://bucket?timeout=0", "timeout"),
        ("s3://bucket?timeout=soon", "timeout"),
        ("s3://bucket?poll=-1", "poll"),
        ("s3://bucket?durability=disk", "replicated"),
        ("s3://bucket?acl=public", "unknown parameter"),
        ("s3://bucket?scrub=perhaps", "scrub"),
        ("s3://bucket?endpoint=https://me:secret@example.com", "environment"),
        ("gs://bucket?region=eu", "region"),
        ("file://", "names no directory"),
        ("file:///", "names no directory"),
        ("file://relative/path", "names no directory"),
        ("file:///dir?endpoint=http://localhost", "endpoint"),
        ("file:///dir?durability=replicated", "durability"),
        ("file:///dir?scrub=true", "scrub"),
    ],
)
def test_a_url_that_can_not_stand_for_a_store_is_refused(url: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        connect(url)

    assert "secret" not in str(caught.value)


def test_a_service_may_keep_what_is_removed_unless_the_url_says_otherwise() -> None:
    """Versions and soft deletes of a bucket can't be seen from here."""
    assert not connect("s3://bucket").limits.scrub
    assert connect("s3://bucket?scrub=true").limits.scrub
    assert connect("file:///dir").limits.scrub


def test_what_the_driver_needs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)

    with pytest.raises(InvalidInput, match="Account must be specified"):
        connect("az://container")._bucket()  # type: ignore[attr-defined]


async def test_a_directory_is_made_and_nothing_above_it(tmp_path: Path) -> None:
    async with connect(f"file://{tmp_path}/a%20store") as store:
        await store.commit(KEY, [noted(1)], create=SetHeader())
    assert (tmp_path / "a store").is_dir()

    with pytest.raises(StoreUnavailable, match="does not exist"):
        await connect(f"file://{tmp_path}/missing/store").open()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotAStore, match="names a file"):
        await connect(f"file://{tmp_path}/file").open()


async def test_a_directory_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    """A disk that is not mounted any more must not look like a place without conversations."""
    async with connect(f"file://{tmp_path}/store") as store:
        await store.commit(KEY, [noted(1)], create=SetHeader())
        (tmp_path / "store").rename(tmp_path / "elsewhere")

        with pytest.raises(NotAStore, match="no such"):
            await store.commit(KEY, [noted(2)])
        with pytest.raises(NotAStore, match="no such"):
            await store.events(ConversationKey("ada", "c-2"))
        assert not (tmp_path / "store").exists()

        (tmp_path / "elsewhere").rename(tmp_path / "store")
        assert (await store.commit(KEY, [noted(2)])).seqs == (2,)


async def test_a_file_that_was_swept_before_it_got_its_name_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process was stopped for long, and must not try for ever."""
    link, swept = os.link, list[str]()

    def sweep(source: str, target: str) -> None:
        if not swept:
            os.unlink(source)
            swept.append(target)
        link(source, target)

    async with connect(f"file://{tmp_path}/store") as store:
        await store.commit(KEY, [noted(1)], create=SetHeader())
        monkeypatch.setattr(os, "link", sweep)
        async with asyncio.timeout(10):
            await store.commit(KEY, [noted(2)])

        assert len(swept) == 1
        assert [event.data for event in await store.events(KEY)] == [b"1", b"2"]


async def test_a_place_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to-eve.txt").write_text("hello")

    with pytest.raises(NotAStore, match="to-eve"):
        await connect(f"file://{tmp_path}").open()

    assert names(tmp_path) == ["letters/to-eve.txt"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"hello", NotAStore),
        (b'{"format": "x"}', NotAStore),
        (msgspec.json.encode(Marker(0, 10.0)), SchemaOutdated),
        (msgspec.json.encode(Marker(99, 10.0)), SchemaTooNew),
    ],
)
async def test_a_store_of_another_version_is_refused(
    tmp_path: Path, body: bytes, error: type[StoreError]
) -> None:
    (tmp_path / "holdfast").write_bytes(body)

    with pytest.raises(error):
        await connect(f"file://{tmp_path}").open()


async def test_any_number_may_open_a_new_place_at_once(tmp_path: Path) -> None:
    """L8"""
    stores = [connect(f"file://{tmp_path}/store") for _ in range(16)]

    await asyncio.gather(*(store.open() for store in stores))

    await asyncio.gather(*(store.commit(KEY, [noted(1)], create=SetHeader()) for store in stores))
    assert len(await stores[0].events(KEY)) == 16
    await asyncio.gather(*(store.close() for store in stores))


async def test_the_time_that_writers_trust_is_the_stores(tmp_path: Path) -> None:
    """Two processes that did not agree on it would lose commits."""
    (tmp_path / "holdfast").write_bytes(msgspec.json.encode(Marker(opening.FORMAT, 77.0)))

    async with TappedStore(tmp_path) as store:
        assert store._heads.trust == 77.0


async def test_hostile_names_stay_inside_the_directory(tmp_path: Path) -> None:
    """L14: nothing leads out of it, and nothing is too long for it."""
    inside = tmp_path / "a" / "b" / "store"
    inside.parent.mkdir(parents=True)
    async with connect(f"file://{inside}?durability=os") as store:
        await asyncio.gather(
            *(store.commit(ConversationKey(name, name), [noted(1)], create=SetHeader()) for name in HOSTILE)
        )
        assert await store.owners(limit=1000) == sorted(HOSTILE)

    everywhere = [path.split("/") for path in names(tmp_path)]
    assert {tuple(parts[:3]) for parts in everywhere} == {("a", "b", "store")}
    for name in {name for parts in everywhere for name in parts}:
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert len(name) <= 255


async def test_a_key_with_the_hash_of_another_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The originals are inside, and compared."""
    monkeypatch.setattr("holdfast.store.objects.names.hashed", lambda *names: "00")
    async with connect(f"file://{tmp_path}/store") as store:
        await store.commit(KEY, [noted(1)], create=SetHeader())

        with pytest.raises(StoreError, match="same hash"):
            await store.commit(ConversationKey("eve", "c-1"), [noted(2)], create=SetHeader())
        with pytest.raises(StoreError, match="same hash"):
            await store.events(ConversationKey("eve", "c-1"))


async def test_a_damaged_object_is_said_to_be_damaged(tmp_path: Path) -> None:
    async with connect(f"file://{tmp_path}/store") as store:
        await store.commit(KEY, [Append("notice", b"1")], create=SetHeader())
    [log] = (tmp_path / "store").rglob("log/*1")
    log.write_bytes(b"nonsense")

    async with connect(f"file://{tmp_path}/store") as store:
        with pytest.raises(StoreError, match="damaged"):
            await store.events(KEY)


# A service that does not keep its promise


class _Careless(Bucket):
    """A store that keeps conditions only as far as it is told to."""

    honest = 0

    async def _create(self, path: str, body: bytes) -> bool:
        if path.startswith("probe/") and self.honest <= 0:
            await self.put(path, body)
            return True
        self.honest -= 1
        return await super()._create(path, body)


@pytest.mark.parametrize("honest", [0, 1, 5, 7, 8])
async def test_a_service_that_lets_two_create_one_object_is_refused(honest: int) -> None:
    bucket = _Careless(MemoryStore(), "s3://careless")
    bucket.honest = honest

    with pytest.raises(WeakerThanAsked, match="conditional writes"):
        await open_bucket(bucket, "s3://careless", f"careless {honest}")

    assert [*obstore.list(bucket._store)] == []


async def test_a_service_that_keeps_its_promise_is_asked_once_in_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_proved", set())
    counts = []
    for _ in range(2):
        async with TappedStore(tmp_path / "store") as store:
            counts.append(sum(request.startswith("create probe/") for request in store.tap.requests))

    assert counts == [9, 0]


def test_a_full_disk_is_told_from_other_trouble() -> None:
    full = translate(OSError(28, "No space left on device"), "file:///dir")
    other = translate(OSError(5, "Input/output error"), "file:///dir")

    assert type(full) is StoreFull
    assert type(other) is StoreUnavailable


@pytest.mark.parametrize("code", ["NoSuchBucket", "ContainerNotFound"])
def test_a_bucket_that_is_not_there_is_said_to_be_missing(code: str) -> None:
    said = f"status code: 404 Not Found: <?xml version='1.0'?>\n<Error><Code>{code}</Code></Error>"

    error = translate(ValueError(said), "gs://bucket")

    assert type(error) is NotAStore
    assert "no such bucket" in str(error)


def test_an_answer_of_a_service_is_shown_by_its_code() -> None:
    said = 'status code: 503 Slow: <?xml version="1.0"?>\n<Error><Code>SlowDown</Code><Key>k</Key></Error>'

    error = translate(ValueError(said), "s3://bucket")

    assert type(error) is StoreUnavailable
    assert str(error).endswith("status code: 503 Slow SlowDown")


def test_what_a_driver_says_is_shown_without_signatures() -> None:
    error = translate(
        ValueError("GET https://x.net/a?sig=secret&se=1 failed\n\nDebug source: secret"), "az://c"
    )

    assert "secret" not in str(error)
    assert "https://x.net/a" in str(error)
