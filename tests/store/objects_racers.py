"""A process that races with others for leases and answers, when it is told to."""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast.errors import StaleCall
from holdfast.ids import ConversationKey
from holdfast.store import Append, MoveCall, connect
from holdfast.store.objects import opening
from holdfast.store.objects.address import Address


async def main(url: str, rounds: int) -> None:
    me = b"%d" % os.getpid()
    # Whoever started this has tried the server, which takes it seconds.
    opening._proved.add(Address.parse(url).service)
    async with connect(url) as store:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        for number in range(rounds):
            key = ConversationKey("ada", f"c-{number}")
            if await store.acquire(key, me.decode(), ttl=60):
                sys.stdout.write(f"lease {key.id}\n")
            try:
                answer = MoveCall("call_1", "completed", frozenset(("interrupted",)), data=me)
                await store.commit(key, [answer, Append("notice", me)])
            except StaleCall:
                continue
            sys.stdout.write(f"answer {key.id}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
