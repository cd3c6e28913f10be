-- Pieces of the statements that read for, and write, a group of commits. A statement has only the
-- pieces that its group needs. i is the place of a commit in its group.

-- name: look
WITH head AS MATERIALIZED (
    SELECT g.i, g.token, c.pk, c.last_seq, c.commits, c.version, c.activity, c.fences, c.holder,
        CASE WHEN c.pk IS NULL AND g.creates THEN nextval('{s}.incarnations') END AS new_pk
    FROM unnest(:owner::text[], :id::text[], :token::text[], :creates::boolean[])
        WITH ORDINALITY AS g (owner, id, token, creates, i)
    LEFT JOIN {s}.conversations c ON c.owner = g.owner AND c.id = g.id
)
SELECT 'head' AS kind, i, ARRAY[holder] AS names,
    ARRAY[{now}, new_pk, pk, last_seq, commits, version, activity, fences] AS numbers, NULL::bytea[] AS bodies
FROM head

-- name: look_token
UNION ALL
SELECT 'token', h.i, NULL, NULL, ARRAY[t.digest, t.result]
FROM head h JOIN {s}.tokens t ON t.conversation = h.pk AND t.token = h.token

-- name: look_calls
UNION ALL
SELECT 'call', h.i, ARRAY[k.call_id, k.name, k.status, k.executor],
    ARRAY[k.step, k.opened_at, k.expires_at], ARRAY[k.data]
FROM unnest(:call_i::int[], :call_id::text[]) AS w (i, call_id)
JOIN head h ON h.i = w.i JOIN {s}.calls k ON k.conversation = h.pk AND k.call_id = w.call_id

-- name: look_awake
UNION ALL
SELECT 'awake', h.i, ARRAY[k.call_id], NULL, NULL
FROM unnest(:awake_i::int[]) AS w (i)
JOIN head h ON h.i = w.i JOIN {s}.calls k ON k.conversation = h.pk
WHERE k.status IN ('pending', 'executing', 'interrupted', 'detached')
    AND (k.status = 'detached' OR (k.status = 'executing' AND k.executor = 'server'))

-- name: look_records
UNION ALL
SELECT 'record', h.i, ARRAY[r.collection, r.key], ARRAY[r.revision], NULL
FROM unnest(:record_i::int[], :record_collection::text[], :record_key::text[]) AS w (i, collection, key)
JOIN head h ON h.i = w.i
JOIN {s}.records r ON r.conversation = h.pk AND r.collection = w.collection AND r.key = w.key

-- name: look_ids
UNION ALL
SELECT 'id', h.i, ARRAY[e.id], ARRAY[e.seq], NULL
FROM unnest(:id_i::int[], :event_id::text[]) AS w (i, id)
JOIN head h ON h.i = w.i JOIN {s}.events e ON e.conversation = h.pk AND e.id = w.id

-- name: look_events
UNION ALL
SELECT 'event', h.i, ARRAY[e.type], ARRAY[e.seq], ARRAY[convert_to(e.data, 'UTF8')]
FROM unnest(:redact_i::int[], :redact_seq::bigint[]) AS w (i, seq)
JOIN head h ON h.i = w.i JOIN {s}.events e ON e.conversation = h.pk AND e.seq = w.seq

-- name: apply
WITH given AS (
    SELECT * FROM unnest(:pk::bigint[], :commits::bigint[], :fences::bigint[], :held::boolean[],
        :last_seq::bigint[], :activity::bigint[], :version::bigint[], :status::text[], :agent::text[],
        :tail::bigint[], :takeovers::bigint[], :rest::boolean[], :release::boolean[], :wake::bigint[],
        :text_at::bigint[], :redactions::bigint[])
    AS g (pk, commits, fences, held, last_seq, activity, version, status, agent, tail, takeovers, rest,
        release, wake, text_at, redactions)
), locked AS MATERIALIZED (
    SELECT c.pk FROM given g JOIN {s}.conversations c ON c.pk = g.pk
    WHERE c.commits = g.commits AND c.fences = g.fences AND (c.holder IS NOT NULL) = g.held
    ORDER BY c.pk FOR NO KEY UPDATE OF c
), head AS (
    UPDATE {s}.conversations c
    SET last_seq = g.last_seq, commits = c.commits + 1, activity = g.activity,
        listed = CASE WHEN g.activity - c.listed > {window} THEN g.activity ELSE c.listed END,
        version = coalesce(g.version, c.version), status = coalesce(g.status, c.status),
        agent = coalesce(g.agent, c.agent), tail = coalesce(g.tail, c.tail),
        takeovers = coalesce(g.takeovers, c.takeovers),
        wake_at = CASE WHEN g.rest THEN g.wake ELSE least(c.wake_at, g.wake) END,
        holder = CASE WHEN g.release THEN NULL ELSE c.holder END,
        lease_until = CASE WHEN g.release THEN 0 ELSE c.lease_until END,
        unindexed_from = coalesce(c.unindexed_from, g.text_at),
        redactions = c.redactions + g.redactions
    FROM given g JOIN locked l ON l.pk = g.pk
    WHERE c.pk = g.pk
    RETURNING c.pk, c.commits
)

-- name: create
WITH head AS (
    INSERT INTO {s}.conversations (pk, owner, id, last_seq, commits, version, created_at, activity, listed,
        tail, status, agent, takeovers, wake_at, unindexed_from)
    SELECT g.pk, g.owner, g.id, g.last_seq, 1, g.version, g.created_at, g.activity, g.activity, g.tail, g.status,
        g.agent, g.takeovers, g.wake, g.text_at
    FROM unnest(:pk::bigint[], :owner::text[], :id::text[], :last_seq::bigint[], :version::bigint[],
        :created_at::bigint[], :activity::bigint[], :tail::bigint[], :status::text[], :agent::text[],
        :takeovers::bigint[], :wake::bigint[], :text_at::bigint[])
    AS g (pk, owner, id, last_seq, version, created_at, activity, tail, status, agent, takeovers, wake, text_at)
    ORDER BY g.owner COLLATE "C", g.id COLLATE "C"
    ON CONFLICT (owner, id) DO NOTHING
    RETURNING pk, commits
), profile AS (
    INSERT INTO {s}.profiles (conversation, title, metadata, settings)
    SELECT h.pk, g.title, convert_from(g.metadata, 'UTF8'), convert_from(g.settings, 'UTF8')
    FROM unnest(:pk::bigint[], :title::text[], :metadata::bytea[], :settings::bytea[])
        AS g (pk, title, metadata, settings)
    JOIN head h ON h.pk = g.pk
)

-- name: write_event
, new_events AS (
    INSERT INTO {s}.events (conversation, seq, type, data, at, id, search)
    SELECT h.pk, e.seq, e.type, convert_from(e.data, 'UTF8'), e.at, e.id, e.search
    FROM unnest(:event_pk::bigint[], :event_seq::bigint[], :event_type::text[], :event_data::bytea[],
        :event_at::bigint[], :event_id::text[], :event_search::bytea[]) AS e (pk, seq, type, data, at, id, search)
    JOIN head h ON h.pk = e.pk
)

-- name: write_open
, new_calls AS (
    INSERT INTO {s}.calls (conversation, owner, call_id, name, status, executor, step, data, opened_at,
        expires_at, opened_by, place)
    SELECT h.pk, k.owner, k.call_id, k.name, k.status, k.executor, k.step, k.data, k.opened_at, k.expires_at,
        h.commits, k.place
    FROM unnest(:open_pk::bigint[], :open_owner::text[], :open_call_id::text[], :open_name::text[],
        :open_status::text[], :open_executor::text[], :open_step::bigint[], :open_data::bytea[],
        :open_at::bigint[], :open_expires_at::bigint[])
    WITH ORDINALITY
        AS k (pk, owner, call_id, name, status, executor, step, data, opened_at, expires_at, place)
    JOIN head h ON h.pk = k.pk
)

-- name: write_move
, moved_calls AS (
    UPDATE {s}.calls k
    SET status = m.status, step = m.step, data = m.data, expires_at = m.expires_at
    FROM unnest(:move_pk::bigint[], :move_call_id::text[], :move_status::text[], :move_step::bigint[],
        :move_data::bytea[], :move_expires_at::bigint[]) AS m (pk, call_id, status, step, data, expires_at)
    JOIN head h ON h.pk = m.pk
    WHERE k.conversation = m.pk AND k.call_id = m.call_id
)

-- name: write_drop
, dropped_records AS (
    DELETE FROM {s}.records r
    USING unnest(:drop_pk::bigint[], :drop_collection::text[], :drop_first::text[], :drop_until::text[])
        AS d (pk, collection, first, until)
    JOIN head h ON h.pk = d.pk
    WHERE r.conversation = d.pk AND r.collection = d.collection AND r.key >= d.first
        AND (d.until IS NULL OR r.key < d.until)
        AND NOT EXISTS (
            SELECT FROM unnest(:put_pk::bigint[], :put_collection::text[], :put_key::text[]) AS p (pk, collection, key)
            WHERE p.pk = r.conversation AND p.collection = r.collection AND p.key = r.key
        )
)

-- name: write_put
, new_records AS (
    INSERT INTO {s}.records (conversation, collection, key, revision, data)
    SELECT h.pk, p.collection, p.key, h.commits, p.data
    FROM unnest(:put_pk::bigint[], :put_collection::text[], :put_key::text[], :put_data::bytea[])
        AS p (pk, collection, key, data)
    JOIN head h ON h.pk = p.pk
    ON CONFLICT (conversation, collection, key) DO UPDATE SET revision = excluded.revision, data = excluded.data
)

-- name: write_untag
, dropped_tags AS (
    DELETE FROM {s}.tags t
    USING unnest(:untag_pk::bigint[], :untag_mark::bytea[], :untag_ref::text[]) AS u (pk, mark, ref)
    JOIN head h ON h.pk = u.pk
    WHERE t.conversation = u.pk AND t.mark = u.mark AND (u.ref IS NULL OR t.ref = u.ref)
        AND NOT EXISTS (
            SELECT FROM unnest(:tag_pk::bigint[], :tag_mark::bytea[], :tag_ref::text[]) AS n (pk, mark, ref)
            WHERE n.pk = t.conversation AND n.mark = t.mark AND n.ref = t.ref
        )
)

-- name: write_tag
, new_tags AS (
    INSERT INTO {s}.tags (mark, conversation, ref, name, value)
    SELECT t.mark, h.pk, t.ref, t.name, t.value
    FROM unnest(:tag_pk::bigint[], :tag_mark::bytea[], :tag_ref::text[], :tag_name::text[], :tag_value::text[])
        AS t (pk, mark, ref, name, value)
    JOIN head h ON h.pk = t.pk
    ON CONFLICT DO NOTHING
)

-- name: write_profile
, new_profiles AS (
    UPDATE {s}.profiles p
    SET title = coalesce(n.title, p.title), metadata = coalesce(convert_from(n.metadata, 'UTF8'), p.metadata),
        settings = coalesce(convert_from(n.settings, 'UTF8'), p.settings)
    FROM unnest(:profile_pk::bigint[], :profile_title::text[], :profile_metadata::bytea[],
        :profile_settings::bytea[]) AS n (pk, title, metadata, settings)
    JOIN head h ON h.pk = n.pk
    WHERE p.conversation = n.pk
)

-- name: write_redact
, tombstones AS (
    UPDATE {s}.events e SET type = 'redacted', data = convert_from(r.data, 'UTF8'), search = NULL
    FROM unnest(:redact_pk::bigint[], :redact_seq::bigint[], :redact_data::bytea[]) AS r (pk, seq, data)
    JOIN head h ON h.pk = r.pk
    WHERE e.conversation = r.pk AND e.seq = r.seq
), dropped_texts AS (
    DELETE FROM {s}.texts t
    USING unnest(:redact_pk::bigint[], :redact_seq::bigint[]) AS r (pk, seq) JOIN head h ON h.pk = r.pk
    WHERE t.conversation = r.pk AND t.seq = r.seq
)

-- name: write_token
, new_tokens AS (
    INSERT INTO {s}.tokens (conversation, token, digest, result)
    SELECT h.pk, t.token, t.digest, t.result
    FROM unnest(:token_pk::bigint[], :token_token::text[], :token_digest::bytea[], :token_result::bytea[])
        AS t (pk, token, digest, result)
    JOIN head h ON h.pk = t.pk
)

-- name: written
SELECT pk FROM head

-- name: load
WITH head AS MATERIALIZED (
    SELECT c.*, p.title, convert_to(p.metadata, 'UTF8') AS metadata, convert_to(p.settings, 'UTF8') AS settings,
        p.forked_from, p.forked_at
    FROM {s}.conversations c JOIN {s}.profiles p ON p.conversation = c.pk
    WHERE c.owner = :owner AND c.id = :id
)
SELECT 'head' AS kind, NULL::bigint AS place, NULL::bigint AS at, status AS a, agent AS b, holder AS c, title AS d,
    forked_from AS e, metadata AS body, settings AS other,
    ARRAY[pk, last_seq, commits, version, created_at, activity, tail, takeovers, wake_at, fences, lease_until,
        forked_at] AS numbers
FROM head
UNION ALL
SELECT 'event', e.seq, e.at, e.type, e.id, NULL, NULL, NULL, convert_to(e.data, 'UTF8'), NULL, NULL
FROM head h JOIN {s}.events e ON e.conversation = h.pk AND e.seq >= h.tail
UNION ALL
SELECT 'call', k.place, k.opened_at, k.call_id, k.name, k.status, k.executor, NULL, k.data, NULL,
    ARRAY[k.opened_by, k.step, k.expires_at]
FROM head h JOIN {s}.calls k ON k.conversation = h.pk
WHERE k.status IN ('pending', 'executing', 'interrupted', 'detached')

-- name: load_records
UNION ALL
SELECT 'record', NULL, r.revision, r.collection, r.key, NULL, NULL, NULL, r.data, NULL, NULL
FROM head h, unnest(:collection::text[], :key::text[]) AS w (collection, key)
JOIN {s}.records r ON r.collection = w.collection AND r.key = w.key
WHERE r.conversation = h.pk
