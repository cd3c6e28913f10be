"""What an agent keeps beside its messages: folded from the log, saved and loaded as one versioned value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model.codec import decode, dumps, encode, loads, type_of
from holdfast.model.derived import State
from holdfast.model.events import Resolution, Retract, StatePatch, Suspension, Todo, ToolResult
from holdfast.model.messages import JSON, Message
from holdfast.model.records import Event
from holdfast.model.upcast import Plain, Upcasts
from holdfast.views.log import Logged, read, undone
from holdfast.views.repair import Turn

__all__ = ["AgentState", "StateField", "StateFold", "state"]

_Change = StatePatch | Suspension | Resolution | ToolResult | Retract


class StateField(msgspec.Struct, frozen=True):
    """
    How a middleware keeps its value in the metadata: under which key, and how it becomes JSON and back.

    ``initial`` makes the value when none was saved, as after the middleware was added.
    """

    key: str
    dump: Callable[[Any], JSON] = lambda value: value
    load: Callable[[JSON], Any] = lambda value: value
    initial: Callable[[], Any] | None = None


class AgentState(msgspec.Struct, frozen=True):
    """
    All that an agent is beside its configuration. Whose it is, ``agent_id``, is never saved with it.

    >>> saved = AgentState("travel-1", metadata={"seat": "12A"}).to_serialized()
    >>> AgentState.from_serialized("travel-2", saved).metadata
    {'seat': '12A'}
    """

    agent_id: str
    messages: tuple[Turn, ...] = ()
    todos: tuple[Todo, ...] = ()
    metadata: dict[str, Any] = {}
    interrupts: tuple[Suspension, ...] = ()

    def to_serialized(self, fields: Iterable[StateField] = ()) -> dict[str, JSON]:
        """
        A JSON object that ``from_serialized`` reads, in this version and in every later one.

        Raises:
            InvalidPayload: Something in it is not JSON and no field says how to keep it; ``path`` says where.
        """
        metadata = dict(self.metadata)
        for field in fields:
            if field.key in metadata:
                metadata[field.key] = field.dump(metadata[field.key])
        dumps({"metadata": metadata})
        return {
            "version": _VERSION,
            "state": {
                "messages": [{"type": type_of(turn), "data": loads(encode(turn))} for turn in self.messages],
                "todos": msgspec.to_builtins(self.todos),
                "metadata": metadata,
                "interrupts": [loads(encode(wait)) for wait in self.interrupts],
            },
        }

    @classmethod
    def from_serialized(
        cls, agent_id: str, data: Mapping[str, JSON] | str | bytes, fields: Iterable[StateField] = ()
    ) -> AgentState:
        """
        What ``to_serialized`` wrote, whatever version did, as a dict or as JSON text.

        Metadata that no field knows, as of a middleware that was removed, comes back as it was written.

        Raises:
            InvalidPayload: It is not such a value, or a newer version wrote it.
        """
        if isinstance(data, (str, bytes)):
            data = loads(data.encode() if isinstance(data, str) else data)
        saved = _upgraded(data)
        metadata: dict[str, Any] = dict(saved.metadata)
        for field in fields:
            if field.key in metadata:
                metadata[field.key] = field.load(metadata[field.key])
            elif field.initial is not None:
                metadata[field.key] = field.initial()
        turns = (decode(turn.type, dumps(turn.data)) for turn in saved.messages)
        return cls(
            agent_id,
            tuple(turn for turn in turns if isinstance(turn, (Message, ToolResult))),
            saved.todos,
            metadata,
            saved.interrupts,
        )


def state(events: Iterable[Event | Logged]) -> State:
    """
    Todos, metadata and open waits after these events. What was undone has no effect.

    >>> state([Event(1, "state", b'{"set":{"seat":"12A"}}', 0)]).metadata
    {'seat': '12A'}
    """
    fold = StateFold()
    for event in events:
        fold.apply(event)
    return fold.state


class StateFold:
    """The same, kept up to date while the log grows. ``start`` is the state up to its ``seq``, if it is known."""

    def __init__(self, start: State | None = None) -> None:
        self._start = start or State()
        self._seq = self._start.seq
        self._changes: list[tuple[int, _Change]] = []

    @property
    def state(self) -> State:
        """The state after the last event that was applied."""
        todos, metadata = self._start.todos, dict(self._start.metadata)
        waits = {wait.call_id: wait for wait in self._start.interrupts}
        dead = undone((seq, change) for seq, change in self._changes if isinstance(change, Retract))
        for seq, change in self._changes:
            if seq in dead:
                continue
            match change:
                case StatePatch():
                    if change.todos is not None:
                        todos = change.todos
                    metadata.update(change.set)
                    for key in change.unset:
                        metadata.pop(key, None)
                case Suspension():
                    waits[change.call_id] = change
                case Resolution() | ToolResult():
                    waits.pop(change.call_id, None)
        return State(self._seq, todos, metadata, tuple(waits.values()))

    def apply(self, event: Event | Logged) -> None:
        """Take the next event of the log; one that was applied already changes nothing."""
        if event.seq <= self._seq:
            return
        self._seq = event.seq
        payload = read(event)
        if isinstance(payload, (StatePatch, Suspension, Resolution, ToolResult, Retract)):
            self._changes.append((event.seq, payload))


class _SavedTurn(msgspec.Struct):
    type: str
    data: dict[str, JSON]


class _Saved(msgspec.Struct):
    """The ``state`` of an envelope of this version."""

    messages: list[_SavedTurn] = []
    todos: tuple[Todo, ...] = ()
    metadata: dict[str, JSON] = {}
    interrupts: tuple[Suspension, ...] = ()


def _with_turns(old: Plain) -> Plain:
    """Version 1 had messages of one text, todos without ids, and room for one interrupt only."""
    wait = old.get("interrupt")
    return {
        "messages": [
            {
                "type": "message",
                "data": {
                    "v": 2,
                    "id": f"v1-{index}",
                    "role": message["role"],
                    "parts": [{"type": "text", "text": message["content"]}],
                },
            }
            for index, message in enumerate(old.get("messages", ()))
        ],
        "todos": [{"id": str(index), **todo} for index, todo in enumerate(old.get("todos", ()))],
        "metadata": old.get("metadata", {}),
        "interrupts": [] if wait is None else [wait],
    }


_UPCASTS = Upcasts([("state", 1, _with_turns)])
_VERSION: Final = _UPCASTS.version("state")


def _upgraded(data: object) -> _Saved:
    if not isinstance(data, Mapping) or not isinstance(data.get("state"), dict):
        raise InvalidPayload("$", "is not a saved state: an object with version and state")
    version = data.get("version")
    if type(version) is not int or version < 1:
        raise InvalidPayload("$.version", "must be a version: a whole number from 1 up")
    if version > _VERSION:
        raise InvalidPayload(
            "$.version", f"is {version} and this version of holdfast reads up to {_VERSION}; upgrade it"
        )
    try:
        return msgspec.convert(_UPCASTS.apply("state", version, data["state"]), _Saved)
    except (TypeError, KeyError, ValueError, AttributeError) as exc:
        raise InvalidPayload("$.state", f"is not a state of version {version}: {exc}") from exc
