"""Tool calls, their cards and their expiries."""

from holdfast.calls.cards import annotated, card_notes
from holdfast.calls.door import Answer, Calls
from holdfast.calls.expiry import expire

__all__ = ["Answer", "Calls", "annotated", "card_notes", "expire"]
