"""
Every error that Holdfast raises on purpose.

::

    HoldfastError
    ├── InvalidInput               what was given can never work; nothing was changed
    │   ├── InvalidKey             an owner, id or name breaks its rules
    │   ├── InvalidOp              an operation, or the way operations are combined
    │   ├── InvalidPayload         a value that is not JSON, with its path
    │   ├── InvalidScope           no owner can be read from this scope
    │   └── TooLarge               more bytes than the store takes in one commit
    │       └── MessageTooLarge    more bytes than this application takes in one message
    ├── NotFound                   no such conversation for this owner
    ├── AlreadyExists              a conversation of that key is there
    ├── Conflict                   somebody else was first; read again, then decide again
    │   ├── Fenced                 the lease is no longer yours
    │   ├── SeqConflict            the log does not end where you expected
    │   ├── StaleCall              the call is in another status, step, or past its expiry
    │   ├── StaleRecord            the record has another revision
    │   ├── StaleHeader            the header has another version
    │   ├── Busy                   a call or an agent still runs
    │   ├── NoSuchEvent            the log has no such seq to redact
    │   └── TokenConflict          the token was used for other operations
    ├── StoreError                 the store itself
    │   ├── StoreClosed            not open, or closed
    │   ├── StoreUnavailable       unreachable or failing right now; retry with a token
    │   │   └── StoreFull          no space left
    │   ├── NotAStore              the file or server holds something else
    │   ├── SchemaOutdated         written by an older version; migrate
    │   ├── SchemaTooNew           written by a newer version; upgrade holdfast
    │   └── WeakerThanAsked        the backend can't promise what the URL asks for
    ├── UnknownStore               no store has this URL's scheme
    └── MissingExtra               an optional dependency is not installed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.ids import ConversationKey


class HoldfastError(Exception):
    """The root of every error that Holdfast raises on purpose."""


class InvalidInput(HoldfastError, ValueError):
    """What was given can never work. Nothing was changed."""


class InvalidKey(InvalidInput):
    """An owner, id or name breaks its rules."""

    def __init__(self, field: str, why: str) -> None:
        self.field, self.why = field, why
        super().__init__(f"{field} {why}")


class InvalidOp(InvalidInput):
    """An operation, or the way operations are combined, can never be applied."""


class InvalidPayload(InvalidInput):
    """A value that can't be stored as JSON. ``path`` says where it is inside the value."""

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"{path} {why}")


class TooLarge(InvalidInput):
    """More bytes than the store takes in one commit."""

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"the commit carries {size:,} bytes and this store takes at most {limit:,}; "
            "split it, or keep large media outside the log"
        )


class MessageTooLarge(TooLarge):
    """More bytes than this application takes in one message, media included."""

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        InvalidInput.__init__(
            self,
            f"the message has {size:,} bytes and at most {limit:,} are allowed here (max_message of "
            "connect); nothing of it was stored",
        )


class InvalidScope(InvalidInput):
    """No owner can be read from this scope. The text names its type only: a scope may hold secrets."""

    def __init__(self, scope: object, why: str) -> None:
        self.scope_type = type(scope).__name__
        super().__init__(f"a scope of type {self.scope_type} {why}")


class BufferFull(HoldfastError):
    """An observer was given more than it could append so far, and can't make its caller wait."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(
            f"{limit:,} items wait to be appended; await flush() now and then, call the observer from another "
            "thread, or give it a larger buffer"
        )


class NotFound(HoldfastError):
    """There is no such conversation for this owner."""

    def __init__(self, key: ConversationKey) -> None:
        self.key = key
        super().__init__(f"no conversation {key.id!r} for this owner")


class AlreadyExists(HoldfastError):
    """A conversation of that key is there already."""

    def __init__(self, key: ConversationKey) -> None:
        self.key = key
        super().__init__(f"conversation {key.id!r} exists already; open it, or choose another id")


class Conflict(HoldfastError):
    """Somebody else was first. Nothing was changed; read again, then decide again."""


class Fenced(Conflict):
    """The lease behind this fence is gone: released, or taken over by another holder."""

    def __init__(self, key: ConversationKey, *, fence: int) -> None:
        self.key, self.fence = key, fence
        super().__init__(
            f"fence {fence} no longer holds {key}: the lease was released or taken over; stop working on it"
        )


class SeqConflict(Conflict):
    """Another writer moved the log first. Read again, then decide again."""

    def __init__(self, key: ConversationKey, *, expected: int, actual: int) -> None:
        self.key, self.expected, self.actual = key, expected, actual
        super().__init__(
            f"{key} is at seq {actual}, not {expected}: another writer appended first; "
            "read the log again before retrying"
        )


class StaleCall(Conflict):
    """The call is not in the status or step that the move asked for, or its time is over."""

    def __init__(self, key: ConversationKey, call_id: str) -> None:
        self.key, self.call_id = key, call_id
        super().__init__(
            f"call {call_id!r} of {key} was answered, moved or expired meanwhile; read it again before answering"
        )


class StaleRecord(Conflict):
    """The record does not have the revision that the write asked for."""

    def __init__(self, key: ConversationKey, collection: str, record_key: str) -> None:
        self.key, self.collection, self.record_key = key, collection, record_key
        super().__init__(
            f"record {collection}/{record_key} of {key} has another revision; read it again before writing"
        )


class StaleHeader(Conflict):
    """The header does not have the version or revision that the change asked for."""

    def __init__(self, key: ConversationKey, *, expected: int, actual: int) -> None:
        self.key, self.expected, self.actual = key, expected, actual
        super().__init__(
            f"{key} was changed meanwhile ({actual}, not {expected}); read it again before changing it"
        )


class Busy(Conflict):
    """
    Something still runs, so this can't be done now.

    ``call_id`` is the call because of which the conversation can't rest. Without one, an agent holds the
    conversation's lease.
    """

    def __init__(self, key: ConversationKey, call_id: str | None = None) -> None:
        self.key, self.call_id = key, call_id
        super().__init__(
            f"{key} is being worked on; try again when its agent rests, or stop it first"
            if call_id is None
            else f"{key} can't rest: call {call_id!r} still runs; end or move it first"
        )


class NoSuchEvent(Conflict):
    """The log has no event of that seq to redact."""

    def __init__(self, key: ConversationKey, seq: int) -> None:
        self.key, self.seq = key, seq
        super().__init__(f"{key} has no event {seq} to redact")


class TokenConflict(Conflict):
    """The token was used before, for other operations."""

    def __init__(self, key: ConversationKey, token: str) -> None:
        self.key, self.token = key, token
        super().__init__(
            f"token {token!r} was already used in {key} for other operations; a token belongs to one commit"
        )


class StoreError(HoldfastError):
    """Something about the store itself, not about a conversation."""


class StoreClosed(StoreError):
    """The store is not open."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"the store {url} is not open; use `async with holdfast.store.connect(url) as store`"
        )


class StoreUnavailable(StoreError):
    """
    The store can't be reached or fails right now.

    A commit that ended this way may have been applied or not: repeat it with its token.
    """


class StoreFull(StoreUnavailable):
    """No space is left. Nothing of the commit was applied."""


class NotAStore(StoreError):
    """The file or server is there but holds something other than a Holdfast store."""


class SchemaOutdated(StoreError):
    """The store was written by an older version and has to be migrated first."""

    def __init__(self, url: str, *, found: int, wanted: int) -> None:
        self.found, self.wanted = found, wanted
        super().__init__(
            f"{url} has schema {found}, this version needs {wanted}: run `holdfast migrate {url}`"
        )


class SchemaTooNew(StoreError):
    """The store was written by a newer version."""

    def __init__(self, url: str, *, found: int, wanted: int) -> None:
        self.found, self.wanted = found, wanted
        super().__init__(
            f"{url} has schema {found}, this version knows {wanted}: upgrade holdfast to open it"
        )


class WeakerThanAsked(StoreError):
    """The backend can't promise what the URL asks for."""


class UnknownStore(HoldfastError, ValueError):
    """No installed store has this URL's scheme."""


class MissingExtra(HoldfastError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{what} needs an optional dependency: pip install 'holdfast[{extra}]'")
