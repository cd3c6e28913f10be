-- A conversation's row holds what commits read or change, and nothing long. A commit that only appends
-- events leaves it alone, but for unsettled_from: the first seq that the row (last_seq, activity) and the
-- search index do not know of yet. changes counts the commits that appended nothing, so last_seq +
-- changes goes up with each commit. Owner and id are NULL while it is being forked or deleted, so nobody can name it; what
-- is left of a crashed fork or delete is removed once lease_until has passed.
-- The primary key is never reused: it is the incarnation that revisions and fences are made of.
CREATE TABLE conversations (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT,
    id TEXT,
    last_seq INTEGER NOT NULL DEFAULT 0,
    changes INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    activity INTEGER NOT NULL,
    tail INTEGER NOT NULL DEFAULT 1,
    status TEXT NOT NULL DEFAULT 'idle',
    agent TEXT NOT NULL DEFAULT '',
    takeovers INTEGER NOT NULL DEFAULT 0,
    redactions INTEGER NOT NULL DEFAULT 0,
    wake_at INTEGER,
    fences INTEGER NOT NULL DEFAULT 0,
    holder TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0,
    unsettled_from INTEGER,
    hidden_owner TEXT
) STRICT;
CREATE UNIQUE INDEX conversations_key ON conversations (owner, id);
CREATE INDEX conversations_activity ON conversations (owner, activity, id);
CREATE INDEX conversations_created ON conversations (owner, created_at, id);
CREATE INDEX conversations_work ON conversations (max(wake_at, lease_until)) WHERE wake_at IS NOT NULL;
CREATE INDEX conversations_unsettled ON conversations (owner) WHERE unsettled_from IS NOT NULL;

CREATE TABLE profiles (
    conversation INTEGER PRIMARY KEY,
    title TEXT NOT NULL DEFAULT '',
    metadata TEXT NOT NULL DEFAULT '{}',
    settings TEXT NOT NULL DEFAULT '{}',
    forked_from TEXT,
    forked_at INTEGER NOT NULL DEFAULT 0
) STRICT;

-- n is conversation << 32 | seq: the log of a conversation lies together, in order, without a
-- second index. search says where the search text stands inside data.
CREATE TABLE events (
    n INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    data TEXT NOT NULL,
    at INTEGER NOT NULL,
    id TEXT,
    search BLOB
) STRICT;

CREATE TABLE event_ids (
    conversation INTEGER NOT NULL,
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (conversation, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE calls (
    pk INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL,
    owner TEXT NOT NULL,
    call_id TEXT NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    executor TEXT NOT NULL,
    step INTEGER NOT NULL,
    data BLOB NOT NULL,
    opened_at INTEGER NOT NULL,
    expires_at INTEGER
) STRICT;
CREATE UNIQUE INDEX calls_key ON calls (conversation, call_id);
CREATE INDEX calls_due ON calls (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX calls_open ON calls (owner, conversation)
    WHERE status IN ('pending', 'executing', 'interrupted', 'detached');

CREATE TABLE records (
    pk INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL,
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    revision INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX records_key ON records (conversation, collection, key);

CREATE TABLE tags (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    conversation INTEGER NOT NULL,
    ref TEXT NOT NULL,
    PRIMARY KEY (owner, name, value, conversation, ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX tags_conversation ON tags (conversation);

CREATE TABLE tokens (
    conversation INTEGER NOT NULL,
    token TEXT NOT NULL,
    digest BLOB NOT NULL,
    result BLOB NOT NULL,
    PRIMARY KEY (conversation, token)
) STRICT, WITHOUT ROWID;

-- Only the index, no copy of the text; owner is a word, so that one tenant's search does not read
-- through the others' matches.
CREATE VIRTUAL TABLE texts USING fts5 (words, owner, content = '', tokenize = 'unicode61 remove_diacritics 0');
