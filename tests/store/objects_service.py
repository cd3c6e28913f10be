"""A prefix of its own on the S3 server of the test run."""

from __future__ import annotations

import os
from urllib.parse import parse_qs, urlsplit

import obstore
from tests.servers import url_of
from tests.servers.objects import ACCESS_KEY, BUCKET, SECRET_KEY, raw_bucket

CREDENTIALS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


class Service:
    """An empty place on a server, and everything that is there."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.prefix = os.urandom(8).hex()
        self.url = f"s3://{BUCKET}/{self.prefix}?endpoint={endpoint}&region=us-east-1"
        self.raw = raw_bucket(endpoint, self.prefix)

    @classmethod
    def of_this_run(cls) -> Service:
        return cls(parse_qs(urlsplit(url_of("seaweed")).query)["endpoint"][0])

    def names(self) -> list[str]:
        """The name of every object."""
        return sorted(meta["path"] for chunk in obstore.list(self.raw) for meta in chunk)

    def everything(self) -> bytes:
        """Every name and every byte."""
        bodies = (name.encode() + bytes(obstore.get(self.raw, name).bytes()) for name in self.names())
        return b"".join(bodies)
