"""The scope-first door to conversations, and one that was opened."""

from holdfast.conversations.conversation import Conversation, Snapshot
from holdfast.conversations.door import Conversations
from holdfast.conversations.info import ARCHIVED, ConversationInfo, Listing, Purged
from holdfast.conversations.items import Format
from holdfast.conversations.retention import PurgeProgress

__all__ = [
    "ARCHIVED",
    "Conversation",
    "ConversationInfo",
    "Conversations",
    "Format",
    "Listing",
    "PurgeProgress",
    "Purged",
    "Snapshot",
]
