"""
Real servers for the tests, started once for a whole run.

The process that starts the run starts the servers and passes their addresses on in the
environment, so that parallel workers share them. ``--without-servers`` leaves them out, and the
tests that need one.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.servers.mariadb import MariaDB
from tests.servers.objects import Rclone, Seaweed
from tests.servers.postgres import Postgres
from tests.servers.process import Server
from tests.servers.valkey import Valkey, ValkeyCluster

SERVERS: dict[str, type[Server] | type[ValkeyCluster]] = {
    "postgres": Postgres,
    "mariadb": MariaDB,
    "valkey": Valkey,
    "valkey_cluster": ValkeyCluster,
    "seaweed": Seaweed,
    "rclone": Rclone,
}


def variable(name: str) -> str:
    """The environment variable that holds a server's URL."""
    return f"HOLDFAST_TEST_{name.upper()}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-servers", action="store_true", help="leave out the tests that need a server")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "server(name): needs a real server")
    started_by_us = not hasattr(config, "workerinput")
    if started_by_us and not config.getoption("--without-servers") and not config.option.collectonly:
        missing = [name for name in SERVERS if variable(name) not in os.environ]
        with ThreadPoolExecutor(len(SERVERS)) as pool:
            for name, server in zip(
                missing, pool.map(lambda name: SERVERS[name]().start(), missing), strict=True
            ):
                os.environ[variable(name)] = server.url


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--without-servers"):
        for item in items:
            if item.get_closest_marker("server"):
                item.add_marker(pytest.mark.skip(reason="--without-servers"))


def url_of(name: str) -> str:
    """The URL of the server that runs for this test run."""
    return os.environ[variable(name)]
