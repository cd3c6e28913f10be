DO $$ BEGIN
    -- CREATE SCHEMA IF NOT EXISTS asks for a right on the database even where the schema is there.
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = '{schema}') THEN
        CREATE SCHEMA {s};
    END IF;
END $$;

CREATE TABLE {s}.holdfast_migrations (
    name text PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- A conversation's number is never used again: it is the incarnation that revisions and fences are
-- made of.
CREATE SEQUENCE {s}.incarnations;

-- The row holds what every commit reads or changes, and nothing long: it is rewritten each time, into
-- the free half of its page (HOT), because no index has a column that an ordinary append changes.
-- That is why "listed" follows "activity" only when it is more than a second behind: lists are
-- ordered by activity, and found by the index of listed.
-- Owner and id are NULL while the conversation is being forked or deleted, so nobody can name it;
-- what is left of a crashed fork or delete is removed once lease_until has passed.
CREATE TABLE {s}.conversations (
    pk bigint PRIMARY KEY,
    owner text COLLATE "C",
    id text COLLATE "C",
    last_seq bigint NOT NULL DEFAULT 0,
    commits bigint NOT NULL DEFAULT 0,
    version bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL,
    activity bigint NOT NULL,
    listed bigint NOT NULL,
    tail bigint NOT NULL DEFAULT 1,
    status text NOT NULL DEFAULT 'idle',
    agent text NOT NULL DEFAULT '',
    takeovers bigint NOT NULL DEFAULT 0,
    redactions bigint NOT NULL DEFAULT 0,
    wake_at bigint,
    fences bigint NOT NULL DEFAULT 0,
    holder text,
    lease_until bigint NOT NULL DEFAULT 0,
    unindexed_from bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX conversations_key ON {s}.conversations (owner, id);
CREATE INDEX conversations_listed ON {s}.conversations (owner, listed, id);
CREATE INDEX conversations_created ON {s}.conversations (owner, created_at, id);
CREATE INDEX conversations_work ON {s}.conversations (greatest(wake_at, lease_until), pk, agent)
    WHERE wake_at IS NOT NULL AND owner IS NOT NULL;
CREATE INDEX conversations_unindexed ON {s}.conversations (owner, pk) WHERE unindexed_from IS NOT NULL;
CREATE INDEX conversations_hidden ON {s}.conversations (pk) WHERE owner IS NULL;

CREATE TABLE {s}.profiles (
    conversation bigint PRIMARY KEY,
    title text NOT NULL DEFAULT '',
    metadata text NOT NULL DEFAULT '{}',
    settings text NOT NULL DEFAULT '{}',
    forked_from text,
    forked_at bigint NOT NULL DEFAULT 0
);

-- data is JSON text, byte for byte as it came: json and jsonb would change or refuse it. search says
-- where the search text stands inside data.
CREATE TABLE {s}.events (
    conversation bigint NOT NULL,
    seq bigint NOT NULL,
    type text NOT NULL,
    data text NOT NULL,
    at bigint NOT NULL,
    id text COLLATE "C",
    search bytea,
    PRIMARY KEY (conversation, seq)
);
CREATE UNIQUE INDEX events_id ON {s}.events (conversation, id) WHERE id IS NOT NULL;

-- opened_by and place are the commit that opened the call and its place in it: the order of calls.
CREATE TABLE {s}.calls (
    conversation bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    call_id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    status text NOT NULL,
    executor text NOT NULL,
    step bigint NOT NULL,
    data bytea NOT NULL,
    opened_at bigint NOT NULL,
    expires_at bigint,
    opened_by bigint NOT NULL,
    place integer NOT NULL,
    PRIMARY KEY (conversation, call_id)
);
CREATE INDEX calls_due ON {s}.calls (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX calls_open ON {s}.calls (owner, opened_at)
    WHERE status IN ('pending', 'executing', 'interrupted', 'detached');
CREATE INDEX calls_open_here ON {s}.calls (conversation)
    WHERE status IN ('pending', 'executing', 'interrupted', 'detached');

CREATE TABLE {s}.records (
    conversation bigint NOT NULL,
    collection text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (conversation, collection, key)
);

-- mark is a hash of owner, name and value, which together can be too long for an index.
CREATE TABLE {s}.tags (
    mark bytea NOT NULL,
    conversation bigint NOT NULL,
    ref text COLLATE "C" NOT NULL,
    name text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (mark, conversation, ref)
);
CREATE INDEX tags_conversation ON {s}.tags (conversation);

CREATE TABLE {s}.tokens (
    conversation bigint NOT NULL,
    token text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    result bytea NOT NULL,
    PRIMARY KEY (conversation, token)
);

-- The words of an event's search text, and its owner as a word, so that a search reads only its own
-- tenant's matches. The words are made by Holdfast, the same for all stores, not by a parser here.
CREATE TABLE {s}.texts (
    conversation bigint NOT NULL,
    seq bigint NOT NULL,
    at bigint NOT NULL,
    words tsvector NOT NULL,
    PRIMARY KEY (conversation, seq)
);
CREATE INDEX texts_words ON {s}.texts USING gin (words);
