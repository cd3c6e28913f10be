"""The Redis store over TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from tests.servers import url_of

from holdfast.errors import StoreUnavailable
from holdfast.store import connect
from holdfast.testing.build import a_conversation, noted

pytestmark = [pytest.mark.anyio, pytest.mark.server("valkey")]

CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIURlHcZN+HIwLgQSTULOWNJZfXPuEwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNjAwMTU1MloYDzIxMjYxMDIz
MDAxNTUyWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARbn2evE4FUh/3e4rsrETuzpAeVMwzI8mhypioU5Ytdm1r+CKlKPfqW
+KP5eP0xsfPFzQyx7GTcUSZChFZdsO50o28wbTAdBgNVHQ4EFgQUrlcXjc8kigxg
Z4nzS8wwq5VDsL8wHwYDVR0jBBgwFoAUrlcXjc8kigxgZ4nzS8wwq5VDsL8wDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARhwR/AAABgglsb2NhbGhvc3QwCgYIKoZI
zj0EAwIDSAAwRQIhAKJG9Vz//ktClkbaFjxewnmzrCZ5+RAa/KzIG5xI9wtyAiBY
UrkltNVpaBsVjWEou8CpLv00ZMUnqQIS8IA1AvhtQA==
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgyFEr52PbVcQbEr7l
8Pt2IswPvjZFzhj8OS4iD2CCSFOhRANCAARbn2evE4FUh/3e4rsrETuzpAeVMwzI
8mhypioU5Ytdm1r+CKlKPfqW+KP5eP0xsfPFzQyx7GTcUSZChFZdsO50
-----END PRIVATE KEY-----
"""
"""Of nobody, for 127.0.0.1, with its key: it protects nothing."""


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    path = tmp_path / "certificate.pem"
    path.write_text(CERTIFICATE)
    return path


@pytest.fixture
async def port(certificate: Path) -> AsyncIterator[int]:
    """A port that speaks TLS for the server, which can't."""
    plain = urlsplit(url_of("valkey")).port
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
        writer.close()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", plain)
        await asyncio.gather(pump(reader, to_server), pump(from_server, writer))

    server = await asyncio.start_server(join, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
@pytest.mark.parametrize("trust", ["ca", "verify"])
async def test_a_store_works_over_tls(port: int, certificate: Path, scheme: str, trust: str) -> None:
    how = f"ca={certificate}" if trust == "ca" else "verify=false"
    url = f"{scheme}://127.0.0.1:{port}?durability=memory&prefix={uuid4().hex}&{how}"
    async with connect(url) as store:
        key = await a_conversation(store)
        async with store.watch([key]) as notices, asyncio.timeout(30):
            await asyncio.gather(*(store.commit(key, [noted(n)]) for n in range(50)))

            assert (await anext(notices)).key == key
        assert len(await store.events(key)) == 50


async def test_a_certificate_that_nobody_signed_is_refused(port: int) -> None:
    with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
        await connect(f"rediss://127.0.0.1:{port}?durability=memory").open()
