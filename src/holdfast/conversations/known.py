"""What is known of a conversation in this process: its log from the tail on, and the folds over it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.conversations.folding import RECORDS, STATE, VIEW, read_marks, read_state, whole_log
from holdfast.conversations.info import ConversationInfo
from holdfast.ids import ConversationKey
from holdfast.model import Compaction, Header, Message, Payload, Reset, Retract, Summary, ToolResult
from holdfast.store import Store
from holdfast.views import Logged, Marks, StateFold, Transcript, logged
from holdfast.views.log import undone


class Known:
    """The folds over a log, and what stood beside it when it was read."""

    def __init__(self, header: Header | None = None) -> None:
        self.info = None if header is None else ConversationInfo.of(header)
        self.seq = 0
        self.view = 0
        self.marks = Marks()
        self.log: list[Logged] = []
        self.transcript = Transcript()
        self.state = StateFold()
        self.open: set[str] = set()
        self.names: dict[str, str] = {}
        self.messages: set[str] = set()
        self.answered: set[str] = set()

    @classmethod
    async def load(cls, store: Store, key: ConversationKey) -> Known:
        """
        Read it, from the header's tail on.

        Raises:
            NotFound: There is no such conversation for this owner.
        """
        loaded = await store.load(key, records=RECORDS)
        known = cls(loaded.header)
        tail = loaded.header.tail
        view, state = loaded.records.get(VIEW), read_state(loaded.records.get(STATE))
        known.view, known.marks = (0 if view is None else view.revision), read_marks(view)
        known.open = {call.call_id for call in loaded.calls}
        if tail > 1 and (state is None or state.seq < tail - 1):
            # Whoever moved the tail kept no state: it is in the log.
            async for event in whole_log(store, key, until=tail - 1):
                known.state.apply(event)
        else:
            known.state = StateFold(state)
        for event in map(logged, loaded.events):
            known.apply(event)
        known.seq = loaded.header.last_seq
        return known

    def apply(self, event: Logged) -> None:
        """Take the next event of the log."""
        self.seq = max(self.seq, event.seq)
        self.log.append(event)
        self.transcript.apply(event)
        self.state.apply(event)
        if isinstance(event.payload, Message):
            self.messages.add(event.payload.id)
            self.names.update(_names(event.payload))
        elif isinstance(event.payload, ToolResult):
            self.answered.add(event.payload.call_id)
        if self.info is not None:
            activity = max(self.info.activity, event.at)
            self.info = msgspec.structs.replace(self.info, last_seq=self.seq, activity=activity)

    @property
    def summary(self) -> Summary | None:
        """Of the summaries that are not undone, the one that reaches furthest."""
        dead = undone((e.seq, e.payload) for e in self.log if isinstance(e.payload, Retract))
        best: Compaction | None = None
        for event in self.log:
            said = event.payload
            if event.seq in dead:
                continue
            if isinstance(said, Reset):
                best = None
            elif isinstance(said, Compaction) and (best is None or said.to_seq >= best.to_seq):
                best = said
        if best is None:
            return None
        return Summary(best.from_seq, best.to_seq, best.text, best.base, best.model, best.usage)

    @property
    def after_system(self) -> int:
        """The first seq after the system messages that it starts with."""
        first = 1
        for event in self.log:
            if isinstance(event.payload, Message):
                if event.payload.role != "system":
                    break
                first = event.seq + 1
        return first

    def named(self, payloads: Sequence[Payload]) -> list[Payload]:
        """The same payloads, with results that name our calls and not the provider's (L15)."""
        names = dict(self.names)
        ours = set(names.values()) | self.open
        named: list[Payload] = []
        for payload in payloads:
            if isinstance(payload, Message):
                names.update(_names(payload))
                ours.update(call.call_id for call in payload.calls)
            elif isinstance(payload, ToolResult) and payload.call_id not in ours:
                known = names.get(payload.call_id, payload.call_id)
                payload = msgspec.structs.replace(payload, call_id=known)
            named.append(payload)
        return named


def _names(message: Message) -> dict[str, str]:
    """A provider names a call by its own id, in a result that may come in another process."""
    return {call.provider_id: call.call_id for call in message.calls if call.provider_id is not None}
