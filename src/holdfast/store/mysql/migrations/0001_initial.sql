-- Names are bytes of UTF-8 in VARBINARY: compared byte by byte, so that case, accents and trailing
-- spaces count, and ordered by code point. Indexes stay below 3072 bytes for any of them.

CREATE TABLE IF NOT EXISTS {p}migrations (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    applied_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
) {engine};

-- A conversation's number is never used again: it is the incarnation that revisions and fences are
-- made of. place is a hash of owner and id, by which it is found and locked.
-- "listed" follows "activity" only when it is more than a second behind, so that an ordinary append
-- changes no index: lists are ordered by activity, and found by the index of listed.
-- ready_at is the later of wake_at and lease_until, or NULL where there is no work.
-- place, owner and id are NULL while the conversation is being forked or deleted, so nobody can name
-- it; what is left of a crashed fork or delete is removed once lease_until has passed.
CREATE TABLE IF NOT EXISTS {p}conversations (
    pk BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    place BINARY(32),
    owner VARBINARY(1024),
    id VARBINARY(1024),
    last_seq BIGINT NOT NULL DEFAULT 0,
    commits BIGINT NOT NULL DEFAULT 0,
    version BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL DEFAULT 0,
    activity BIGINT NOT NULL DEFAULT 0,
    listed BIGINT NOT NULL DEFAULT 0,
    tail BIGINT NOT NULL DEFAULT 1,
    status VARBINARY(1024) NOT NULL DEFAULT 'idle',
    agent VARBINARY(1024) NOT NULL DEFAULT '',
    takeovers BIGINT NOT NULL DEFAULT 0,
    redactions BIGINT NOT NULL DEFAULT 0,
    wake_at BIGINT,
    fences BIGINT NOT NULL DEFAULT 0,
    holder VARBINARY(1024),
    lease_until BIGINT NOT NULL DEFAULT 0,
    ready_at BIGINT,
    unindexed_from BIGINT,
    UNIQUE KEY place (place),
    KEY listed (owner, listed),
    KEY created (owner, created_at, id),
    KEY ready (ready_at),
    KEY unindexed (unindexed_from)
) {engine};

CREATE TABLE IF NOT EXISTS {p}profiles (
    conversation BIGINT NOT NULL PRIMARY KEY,
    title LONGTEXT NOT NULL,
    metadata LONGTEXT NOT NULL,
    settings LONGTEXT NOT NULL,
    forked_from VARBINARY(1024),
    forked_at BIGINT NOT NULL DEFAULT 0
) {engine};

-- data is JSON text, byte for byte as it came: the type JSON would change or refuse it. search says
-- where the search text stands inside data.
CREATE TABLE IF NOT EXISTS {p}events (
    conversation BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    type VARBINARY(1024) NOT NULL,
    data LONGTEXT NOT NULL,
    at BIGINT NOT NULL,
    id VARBINARY(1024),
    search LONGBLOB,
    PRIMARY KEY (conversation, seq),
    UNIQUE KEY id (conversation, id)
) {engine};

-- opened_by and place are the commit that opened the call and its place in it: the order of calls.
-- open_at is opened_at while the call is open, then NULL.
CREATE TABLE IF NOT EXISTS {p}calls (
    conversation BIGINT NOT NULL,
    owner VARBINARY(1024) NOT NULL,
    call_id VARBINARY(1024) NOT NULL,
    name VARBINARY(1024) NOT NULL,
    status VARBINARY(16) NOT NULL,
    executor VARBINARY(16) NOT NULL,
    step BIGINT NOT NULL,
    data LONGBLOB NOT NULL,
    opened_at BIGINT NOT NULL,
    open_at BIGINT,
    expires_at BIGINT,
    opened_by BIGINT NOT NULL,
    place BIGINT NOT NULL,
    PRIMARY KEY (conversation, call_id),
    KEY due (expires_at),
    KEY open_of_owner (owner, open_at),
    KEY open_here (conversation, open_at)
) {engine};

CREATE TABLE IF NOT EXISTS {p}records (
    conversation BIGINT NOT NULL,
    collection VARBINARY(1024) NOT NULL,
    `key` VARBINARY(1024) NOT NULL,
    revision BIGINT NOT NULL,
    data LONGBLOB NOT NULL,
    PRIMARY KEY (conversation, collection, `key`)
) {engine};

-- mark is a hash of owner, name and value, which together are too long for an index.
CREATE TABLE IF NOT EXISTS {p}tags (
    mark BINARY(32) NOT NULL,
    conversation BIGINT NOT NULL,
    ref VARBINARY(1024) NOT NULL,
    name VARBINARY(1024) NOT NULL,
    value VARBINARY(1024) NOT NULL,
    PRIMARY KEY (mark, conversation, ref),
    KEY conversation (conversation)
) {engine};

CREATE TABLE IF NOT EXISTS {p}tokens (
    conversation BIGINT NOT NULL,
    token VARBINARY(1024) NOT NULL,
    digest TINYBLOB NOT NULL,
    result LONGBLOB NOT NULL,
    PRIMARY KEY (conversation, token)
) {engine};

-- The words of search texts. A row stands for 64 events of a conversation: bit n of bits is the event
-- 64 * chunk + n. owner is a hash, so that a search reads only its own tenant's words.
CREATE TABLE IF NOT EXISTS {p}words (
    owner BINARY(8) NOT NULL,
    word VARBINARY(40) NOT NULL,
    conversation BIGINT NOT NULL,
    chunk BIGINT NOT NULL,
    bits BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (owner, word, conversation, chunk),
    KEY chunk (conversation, chunk)
) {engine};
