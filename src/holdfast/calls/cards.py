"""What is added to the card of a call, beside what the log says of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from holdfast.ids import ConversationKey
from holdfast.model import JSON, loads
from holdfast.store import Store
from holdfast.views.display import CallContent, Row

CARDS: Final = "cards"
"""The collection of what was added, by call id."""


async def card_notes(
    store: Store, key: ConversationKey, call_ids: Collection[str]
) -> dict[str, dict[str, JSON]]:
    """What ``annotate`` added to these calls."""
    return {record.key: loads(record.data) for record in await store.records(key, CARDS, keys=call_ids)}


def annotated(row: Row, notes: Mapping[str, dict[str, JSON]]) -> Row:
    """A card with what was added to its call; any other row as it is."""
    card = row.content
    if not isinstance(card, CallContent) or card.call_id not in notes:
        return row
    card = msgspec.structs.replace(card, metadata={**card.metadata, **notes[card.call_id]})
    return msgspec.structs.replace(row, content=card)
