-- Words in braces are filled in: s is the schema, window the microseconds that the column listed may be
-- behind activity, now the test's clock or the server's, begun the same when the statement came in. The
-- latter is the same wherever it stands in a statement, and older than any wait for a lock.

-- name: state
SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
    current_setting('fsync'), current_setting('synchronous_commit'),
    current_setting('synchronous_standby_names'), pg_is_in_recovery(),
    to_regclass('{s}.holdfast_migrations') IS NOT NULL,
    to_regclass('{s}.conversations') IS NOT NULL;

-- name: applied
SELECT name FROM {s}.holdfast_migrations ORDER BY name;

-- name: filtered
SELECT row_security_active('{s}.conversations');

-- name: append
WITH head AS (
    UPDATE {s}.conversations
    SET last_seq = last_seq + 1, commits = commits + 1, activity = greatest(activity, {begun}),
        listed = CASE WHEN {begun} - listed > {window} THEN {begun} ELSE listed END,
        unindexed_from = CASE WHEN :search::bytea IS NULL THEN unindexed_from
            ELSE coalesce(unindexed_from, last_seq + 1) END
    WHERE owner = :owner AND id = :id
    RETURNING pk, last_seq, activity
)
INSERT INTO {s}.events (conversation, seq, type, data, at, search)
SELECT pk, last_seq, :type, convert_from(:data, 'UTF8'), activity, :search FROM head
RETURNING conversation, seq, at;

-- name: append_all
WITH locked AS MATERIALIZED (
    SELECT c.pk, g.i, g.count, g.text_at
    FROM unnest(:owner::text[], :id::text[], :count::int[], :text_at::int[], :expect::bigint[],
            :fenced_pk::bigint[], :fence::bigint[])
        WITH ORDINALITY AS g (owner, id, count, text_at, expect, fenced_pk, fence, i)
    JOIN {s}.conversations c ON c.owner = g.owner AND c.id = g.id
    WHERE (g.expect IS NULL OR c.last_seq = g.expect)
        AND (g.fence IS NULL OR (c.pk = g.fenced_pk AND c.fences = g.fence AND c.holder IS NOT NULL))
    ORDER BY c.pk FOR NO KEY UPDATE OF c
), head AS (
    UPDATE {s}.conversations c
    SET last_seq = c.last_seq + l.count, commits = c.commits + 1, activity = greatest(c.activity, {begun}),
        listed = CASE WHEN {begun} - c.listed > {window} THEN {begun} ELSE c.listed END,
        unindexed_from = CASE WHEN l.text_at IS NULL THEN c.unindexed_from
            ELSE coalesce(c.unindexed_from, c.last_seq + l.text_at) END
    FROM locked l
    WHERE c.pk = l.pk
    RETURNING l.i, l.count, c.pk, c.last_seq, c.activity
), added AS (
    INSERT INTO {s}.events (conversation, seq, type, data, at, search)
    SELECT h.pk, h.last_seq - h.count + e.place, e.type, convert_from(e.data, 'UTF8'), h.activity, e.search
    FROM unnest(:event_i::int[], :place::int[], :type::text[], :data::bytea[], :search::bytea[])
        AS e (i, place, type, data, search)
    JOIN head h ON h.i = e.i
)
SELECT i, pk, last_seq, activity FROM head;

-- name: lock_head
SELECT FROM {s}.conversations WHERE owner = :owner AND id = :id FOR NO KEY UPDATE;

-- name: header
SELECT c.pk, c.owner, c.id, c.last_seq, c.commits, c.version, c.created_at, c.activity, c.tail, c.status,
    c.agent, c.takeovers, c.wake_at, c.fences, c.holder, c.lease_until, p.title,
    convert_to(p.metadata, 'UTF8'), convert_to(p.settings, 'UTF8'), p.forked_from, p.forked_at
FROM {s}.conversations c JOIN {s}.profiles p ON p.conversation = c.pk
WHERE c.owner = :owner AND c.id = :id;

-- name: events
SELECT e.seq, e.type, convert_to(e.data, 'UTF8'), e.at, e.id
FROM {s}.conversations c LEFT JOIN LATERAL (
    SELECT * FROM {s}.events e WHERE e.conversation = c.pk AND e.seq > :after AND e.seq < :before
    ORDER BY e.seq DESC LIMIT :limit
) e ON true
WHERE c.owner = :owner AND c.id = :id;

-- name: texts
SELECT e.seq, e.search, convert_to(e.data, 'UTF8')
FROM {s}.conversations c
LEFT JOIN {s}.events e ON e.conversation = c.pk AND e.seq > :after AND e.seq < :before AND e.search IS NOT NULL
WHERE c.owner = :owner AND c.id = :id;

-- name: calls
SELECT c.owner, c.id, k.call_id, k.name, k.status, k.executor, k.step, k.data, k.opened_at, k.expires_at
FROM {s}.conversations c
LEFT JOIN {s}.calls k ON k.conversation = c.pk
    AND (:status::text[] IS NULL OR k.status = ANY (:status))
    AND (:call_ids::text[] IS NULL OR k.call_id = ANY (:call_ids))
WHERE c.owner = :owner AND c.id = :id
ORDER BY k.opened_by, k.place;

-- name: records
SELECT c.pk, r.collection, r.key, r.data, r.revision
FROM {s}.conversations c LEFT JOIN LATERAL (
    SELECT * FROM {s}.records r WHERE r.conversation = c.pk AND r.collection = :collection
        AND r.key >= :first AND r.key > :after
        AND (:before::text IS NULL OR r.key < :before) AND (:until::text IS NULL OR r.key < :until)
    ORDER BY r.key LIMIT :limit
) r ON true
WHERE c.owner = :owner AND c.id = :id;

-- name: records_reversed
SELECT c.pk, r.collection, r.key, r.data, r.revision
FROM {s}.conversations c LEFT JOIN LATERAL (
    SELECT * FROM {s}.records r WHERE r.conversation = c.pk AND r.collection = :collection
        AND r.key >= :first AND r.key > :after
        AND (:before::text IS NULL OR r.key < :before) AND (:until::text IS NULL OR r.key < :until)
    ORDER BY r.key DESC LIMIT :limit
) r ON true
WHERE c.owner = :owner AND c.id = :id;

-- name: records_by_key
SELECT c.pk, r.collection, r.key, r.data, r.revision
FROM {s}.conversations c
LEFT JOIN {s}.records r ON r.conversation = c.pk AND r.collection = :collection AND r.key = ANY (:keys)
WHERE c.owner = :owner AND c.id = :id;

-- name: inventory
WITH c AS (SELECT pk FROM {s}.conversations WHERE owner = :owner AND id = :id)
SELECT NULL AS collection, NULL AS name, NULL AS value, NULL AS ref FROM c
UNION ALL (SELECT DISTINCT r.collection, NULL, NULL, NULL FROM c JOIN {s}.records r ON r.conversation = c.pk)
UNION ALL (SELECT NULL, t.name, t.value, t.ref FROM c JOIN {s}.tags t ON t.conversation = c.pk);

-- name: headers_by_activity
WITH page AS (
    SELECT activity FROM {s}.conversations
    WHERE owner = :owner AND listed <= :at AND (activity, id) < (:at, :id)
    ORDER BY listed DESC LIMIT :limit
), bound AS (
    SELECT CASE WHEN count(*) < :limit THEN 0 ELSE min(activity) - {window} END AS listed FROM page
)
SELECT c.pk, c.owner, c.id, c.last_seq, c.commits, c.version, c.created_at, c.activity, c.tail, c.status,
    c.agent, c.takeovers, c.wake_at, c.fences, c.holder, c.lease_until, p.title,
    convert_to(p.metadata, 'UTF8'), convert_to(p.settings, 'UTF8'), p.forked_from, p.forked_at
FROM (
    SELECT c.* FROM {s}.conversations c, bound b
    WHERE c.owner = :owner AND c.listed <= :at AND c.listed >= b.listed AND (c.activity, c.id) < (:at, :id)
    ORDER BY c.activity DESC, c.id DESC LIMIT :limit
) c JOIN {s}.profiles p ON p.conversation = c.pk
ORDER BY c.activity DESC, c.id DESC;

-- name: headers_by_creation
SELECT c.pk, c.owner, c.id, c.last_seq, c.commits, c.version, c.created_at, c.activity, c.tail, c.status,
    c.agent, c.takeovers, c.wake_at, c.fences, c.holder, c.lease_until, p.title,
    convert_to(p.metadata, 'UTF8'), convert_to(p.settings, 'UTF8'), p.forked_from, p.forked_at
FROM {s}.conversations c JOIN {s}.profiles p ON p.conversation = c.pk
WHERE c.owner = :owner AND (c.created_at, c.id) < (:at, :id)
ORDER BY c.created_at DESC, c.id DESC LIMIT :limit;

-- name: headers_by_tag
SELECT c.pk, c.owner, c.id, c.last_seq, c.commits, c.version, c.created_at, c.activity, c.tail, c.status,
    c.agent, c.takeovers, c.wake_at, c.fences, c.holder, c.lease_until, p.title,
    convert_to(p.metadata, 'UTF8'), convert_to(p.settings, 'UTF8'), p.forked_from, p.forked_at
FROM {s}.conversations c JOIN {s}.profiles p ON p.conversation = c.pk
WHERE c.owner = :owner AND c.pk IN (SELECT conversation FROM {s}.tags WHERE mark = :mark)
    AND (CASE WHEN :by_activity THEN c.activity ELSE c.created_at END, c.id) < (:at, :id)
ORDER BY CASE WHEN :by_activity THEN c.activity ELSE c.created_at END DESC, c.id DESC LIMIT :limit;

-- name: owners
WITH RECURSIVE found AS (
    (SELECT owner FROM {s}.conversations WHERE owner > :after ORDER BY owner LIMIT 1)
    UNION ALL
    SELECT (SELECT c.owner FROM {s}.conversations c WHERE c.owner > f.owner ORDER BY c.owner LIMIT 1)
    FROM found f WHERE f.owner IS NOT NULL
)
SELECT owner FROM found WHERE owner IS NOT NULL LIMIT :limit;

-- name: open_calls
SELECT c.owner, c.id, k.call_id, k.name, k.status, k.executor, k.step, k.data, k.opened_at, k.expires_at
FROM {s}.calls k JOIN {s}.conversations c ON c.pk = k.conversation AND c.owner = k.owner
WHERE k.owner = :owner AND k.status IN ('pending', 'executing', 'interrupted', 'detached')
    AND k.status = ANY (:status)
ORDER BY k.opened_at, c.id, k.opened_by, k.place LIMIT :limit;

-- name: due
SELECT c.owner, c.id, k.call_id, k.name, k.status, k.executor, k.step, k.data, k.opened_at, k.expires_at
FROM {s}.calls k JOIN {s}.conversations c ON c.pk = k.conversation
WHERE k.expires_at <= {now} AND c.owner IS NOT NULL
ORDER BY k.expires_at, c.owner, c.id, k.call_id LIMIT :limit;

-- name: find
SELECT c.id, t.ref FROM {s}.tags t JOIN {s}.conversations c ON c.pk = t.conversation
WHERE t.mark = :mark AND c.owner = :owner ORDER BY c.id, t.ref LIMIT :limit;

-- name: acquire
UPDATE {s}.conversations
SET fences = fences + 1, holder = :holder, lease_until = t.now + :ttl::bigint,
    takeovers = takeovers + CASE WHEN holder IS NOT NULL AND lease_until <= t.now THEN 1 ELSE 0 END
FROM (SELECT {now} AS now) t
WHERE owner = :owner AND id = :id AND (holder IS NULL OR holder = :holder OR lease_until <= t.now)
RETURNING pk, fences, lease_until;

-- name: exists
SELECT pk, commits FROM {s}.conversations WHERE owner = :owner AND id = :id;

-- name: claim
WITH t AS MATERIALIZED (SELECT {now} AS now), ready AS MATERIALIZED (
    SELECT c.pk, greatest(c.wake_at, c.lease_until) AS since
    FROM {s}.conversations c, t
    WHERE c.wake_at IS NOT NULL AND c.owner IS NOT NULL AND greatest(c.wake_at, c.lease_until) <= t.now
        AND (:agents::text[] IS NULL OR c.agent = ANY (:agents))
    ORDER BY greatest(c.wake_at, c.lease_until), c.pk LIMIT :limit
    FOR NO KEY UPDATE OF c SKIP LOCKED
), taken AS (
    UPDATE {s}.conversations c
    SET fences = c.fences + 1, holder = :holder, lease_until = t.now + :ttl::bigint,
        takeovers = c.takeovers + CASE WHEN c.holder IS NOT NULL THEN 1 ELSE 0 END
    FROM ready r, t WHERE c.pk = r.pk
    RETURNING r.since, c.owner, c.id, c.pk, c.fences, c.lease_until
)
SELECT owner, id, pk, fences, lease_until FROM taken ORDER BY since, pk;

-- name: renew
WITH held AS MATERIALIZED (
    SELECT c.pk, g.i
    FROM unnest(:owner::text[], :id::text[], :pk::bigint[], :fence::bigint[])
        WITH ORDINALITY AS g (owner, id, pk, fence, i)
    JOIN {s}.conversations c ON c.pk = g.pk AND c.owner = g.owner AND c.id = g.id
    WHERE c.fences = g.fence AND c.holder IS NOT NULL AND c.lease_until > {now}
    ORDER BY c.pk FOR NO KEY UPDATE OF c
), longer AS (
    UPDATE {s}.conversations c SET lease_until = t.now + :ttl::bigint
    FROM (SELECT DISTINCT pk FROM held) h, (SELECT {now} AS now) t
    WHERE c.pk = h.pk RETURNING c.pk, c.holder, c.lease_until
)
SELECT h.i, l.holder, l.lease_until FROM held h JOIN longer l ON l.pk = h.pk ORDER BY h.i;

-- name: release
UPDATE {s}.conversations
SET holder = NULL, lease_until = 0,
    wake_at = CASE WHEN :defer::bigint IS NULL THEN wake_at ELSE {now} + :defer END
WHERE owner = :owner AND id = :id AND pk = :pk AND fences = :fence AND holder IS NOT NULL
RETURNING pk;

-- name: hide
UPDATE {s}.conversations
SET owner = NULL, id = NULL, commits = commits + 1, wake_at = NULL, holder = NULL, lease_until = 0,
    unindexed_from = NULL
WHERE owner = :owner AND id = :id AND (:pk::bigint IS NULL OR (pk = :pk AND commits = :commits))
RETURNING pk, last_seq;

-- name: counts
SELECT (SELECT count(*) FROM {s}.calls WHERE conversation = :pk),
    (SELECT count(*) FROM {s}.records WHERE conversation = :pk),
    (SELECT count(*) FROM {s}.tags WHERE conversation = :pk);

-- name: hidden
UPDATE {s}.conversations SET lease_until = 0 WHERE owner IS NULL AND lease_until <= {now} RETURNING pk;

-- name: remove_slice
WITH gone_events AS (
    DELETE FROM {s}.events WHERE conversation = :pk
        AND seq IN (SELECT seq FROM {s}.events WHERE conversation = :pk ORDER BY seq LIMIT 1000) RETURNING 1
), gone_texts AS (
    DELETE FROM {s}.texts WHERE conversation = :pk
        AND seq IN (SELECT seq FROM {s}.texts WHERE conversation = :pk ORDER BY seq LIMIT 1000) RETURNING 1
), gone_records AS (
    DELETE FROM {s}.records WHERE conversation = :pk AND (collection, key) IN
        (SELECT collection, key FROM {s}.records WHERE conversation = :pk LIMIT 500) RETURNING 1
), gone_calls AS (
    DELETE FROM {s}.calls WHERE conversation = :pk
        AND call_id IN (SELECT call_id FROM {s}.calls WHERE conversation = :pk LIMIT 1000) RETURNING 1
), gone_tags AS (
    DELETE FROM {s}.tags WHERE conversation = :pk
        AND (mark, ref) IN (SELECT mark, ref FROM {s}.tags WHERE conversation = :pk LIMIT 1000) RETURNING 1
), gone_tokens AS (
    DELETE FROM {s}.tokens WHERE conversation = :pk
        AND token IN (SELECT token FROM {s}.tokens WHERE conversation = :pk LIMIT 1000) RETURNING 1
)
SELECT greatest(
    (SELECT count(*) FROM gone_events), (SELECT count(*) FROM gone_texts), 2 * (SELECT count(*) FROM gone_records),
    (SELECT count(*) FROM gone_calls), (SELECT count(*) FROM gone_tags), (SELECT count(*) FROM gone_tokens)
) = 1000;

-- name: remove_rest
WITH gone AS (DELETE FROM {s}.profiles WHERE conversation = :pk)
DELETE FROM {s}.conversations WHERE pk = :pk AND owner IS NULL;

-- name: fork_source
SELECT pk, last_seq, redactions FROM {s}.conversations WHERE owner = :owner AND id = :id;

-- name: fork_begin
WITH fork AS (
    INSERT INTO {s}.conversations (pk, last_seq, created_at, activity, listed, agent, lease_until)
    SELECT nextval('{s}.incarnations'), :at, t.now, t.now, t.now, c.agent, t.now + :hidden_for::bigint
    FROM {s}.conversations c, (SELECT {now} AS now) t WHERE c.pk = :source
    RETURNING pk
), profile AS (
    INSERT INTO {s}.profiles (conversation, title, metadata, settings, forked_from, forked_at)
    SELECT f.pk, p.title, p.metadata, p.settings, :id, :at
    FROM {s}.profiles p, fork f WHERE p.conversation = :source
)
SELECT pk FROM fork;

-- name: fork_slice
WITH alive AS (
    UPDATE {s}.conversations SET lease_until = {now} + :hidden_for::bigint
    WHERE pk = :pk AND lease_until > 0 RETURNING pk
)
INSERT INTO {s}.events (conversation, seq, type, data, at, id, search)
SELECT a.pk, e.seq, e.type, e.data, e.at, e.id, e.search
FROM {s}.events e, alive a WHERE e.conversation = :source AND e.seq > :after AND e.seq <= :until;

-- name: fork_lock
SELECT redactions FROM {s}.conversations WHERE pk = :source AND owner = :owner AND id = :id FOR SHARE;

-- name: fork_reveal
UPDATE {s}.conversations c
SET owner = :owner, id = :id, created_at = t.now, activity = t.now, listed = t.now, lease_until = 0,
    unindexed_from = (SELECT min(e.seq) FROM {s}.events e WHERE e.conversation = :pk AND e.search IS NOT NULL)
FROM (SELECT {now} AS now) t WHERE c.pk = :pk AND c.lease_until > 0 RETURNING c.pk;

-- name: fork_records
INSERT INTO {s}.records (conversation, collection, key, revision, data)
SELECT :pk, collection, key, 1, data FROM {s}.records
WHERE conversation = :source AND collection = ANY (:collections);

-- name: unindexed
SELECT pk, owner, unindexed_from, last_seq, redactions FROM {s}.conversations
WHERE unindexed_from IS NOT NULL AND owner IS NOT NULL AND pk > :after
    AND (:owner::text IS NULL OR owner = :owner) AND (:pks::bigint[] IS NULL OR pk = ANY (:pks))
ORDER BY pk LIMIT :limit;

-- name: unindexed_texts
SELECT g.i, e.seq, e.at, e.search, convert_to(e.data, 'UTF8')
FROM unnest(:pk::bigint[], :first::bigint[], :last::bigint[]) WITH ORDINALITY AS g (pk, first, last, i),
LATERAL (
    SELECT seq, at, search, data, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before
    FROM {s}.events WHERE conversation = g.pk AND seq BETWEEN g.first AND g.last AND search IS NOT NULL
    ORDER BY seq LIMIT :limit
) e
WHERE e.before < :bytes ORDER BY g.i, e.seq;

-- name: index_texts
WITH still AS MATERIALIZED (
    SELECT c.pk, g.i, g.until
    FROM unnest(:pk::bigint[], :first::bigint[], :until::bigint[], :redactions::bigint[])
        WITH ORDINALITY AS g (pk, first, until, redactions, i)
    JOIN {s}.conversations c ON c.pk = g.pk
    WHERE c.redactions = g.redactions AND c.unindexed_from = g.first AND c.owner IS NOT NULL
    ORDER BY c.pk FOR NO KEY UPDATE OF c
), done AS (
    UPDATE {s}.conversations c
    SET unindexed_from = CASE WHEN c.last_seq = s.until THEN NULL ELSE s.until + 1 END
    FROM still s WHERE c.pk = s.pk
)
INSERT INTO {s}.texts (conversation, seq, at, words)
SELECT s.pk, x.seq, x.at, x.words::tsvector
FROM unnest(:text_i::int[], :seq::bigint[], :at::bigint[], :words::text[]) AS x (i, seq, at, words)
JOIN still s ON s.i = x.i
ON CONFLICT DO NOTHING;

-- name: search
SELECT c.id, e.seq, e.search, convert_to(e.data, 'UTF8')
FROM (
    SELECT t.conversation, t.seq, t.at, c.id FROM {s}.texts t JOIN {s}.conversations c ON c.pk = t.conversation
    WHERE t.words @@ :words::text::tsquery AND c.owner = :owner
    ORDER BY t.at DESC, c.id DESC, t.seq DESC LIMIT :limit OFFSET :skip
) c JOIN {s}.events e ON e.conversation = c.conversation AND e.seq = c.seq
ORDER BY c.at DESC, c.id DESC, c.seq DESC;

-- name: moment
SELECT pg_current_snapshot()::text;

-- name: marks
SELECT g.i, c.pk, c.commits, c.wake_at, c.holder
FROM unnest(:owner::text[], :id::text[]) WITH ORDINALITY AS g (owner, id, i)
JOIN {s}.conversations c ON c.owner = g.owner AND c.id = g.id;

-- name: notify
SELECT set_config('synchronous_commit', 'off', true), pg_notify(:channel, payload)
FROM unnest(:payloads::text[]) AS p (payload);
