-- name: head
SELECT pk, last_seq, changes, version, activity, fences, holder, unsettled_from
FROM conversations WHERE owner = ? AND id = ?;

-- name: create
INSERT INTO conversations (owner, id, created_at, activity) VALUES (?, ?, ?, ?);

-- name: create_profile
INSERT INTO profiles (conversation) VALUES (?);

-- name: advance
UPDATE conversations SET last_seq = ?, changes = ?, activity = ? WHERE pk = ?;

-- name: mark_unsettled
UPDATE conversations SET unsettled_from = ? WHERE pk = ?;

-- name: last_event
SELECT n & 4294967295, at FROM events WHERE n > ? AND n < ? ORDER BY n DESC LIMIT 1;

-- name: mark_version
UPDATE conversations SET version = ? WHERE pk = ?;

-- name: mark_redacted
UPDATE conversations SET redactions = redactions + ? WHERE pk = ?;

-- name: append
INSERT INTO events (n, type, data, at, id, search) VALUES (?, ?, CAST(? AS TEXT), ?, ?, ?);

-- name: seq_of_id
SELECT seq FROM event_ids WHERE conversation = ? AND id = ?;

-- name: remember_id
INSERT INTO event_ids (conversation, id, seq) VALUES (?, ?, ?);

-- name: event_for_redaction
SELECT type, CAST(data AS BLOB), search FROM events WHERE n = ?;

-- name: redact
UPDATE events SET type = ?, data = CAST(? AS TEXT), search = NULL WHERE n = ?;

-- name: token
SELECT digest, result FROM tokens WHERE conversation = ? AND token = ?;

-- name: remember_token
INSERT INTO tokens (conversation, token, digest, result) VALUES (?, ?, ?, ?);

-- name: call
SELECT call_id, name, status, executor, step, data, opened_at, expires_at
FROM calls WHERE conversation = ? AND call_id = ?;

-- name: open_call
INSERT INTO calls (conversation, owner, call_id, name, status, executor, step, data, opened_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: move_call
UPDATE calls SET status = ?, step = ?, data = ?, expires_at = ? WHERE conversation = ? AND call_id = ?;

-- name: calls_that_keep_awake
SELECT call_id FROM calls
WHERE owner = ? AND conversation = ? AND status IN ('pending', 'executing', 'interrupted', 'detached')
    AND (status = 'detached' OR (status = 'executing' AND executor = 'server'))
ORDER BY pk;

-- name: record_revision
SELECT revision FROM records WHERE conversation = ? AND collection = ? AND key = ?;

-- name: put_record
INSERT INTO records (conversation, collection, key, revision, data) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (conversation, collection, key) DO UPDATE SET revision = excluded.revision, data = excluded.data;

-- name: drop_record
DELETE FROM records WHERE conversation = ? AND collection = ? AND key = ?;

-- name: drop_collection
DELETE FROM records WHERE conversation = ? AND collection = ?;

-- name: drop_records_from
DELETE FROM records WHERE conversation = ? AND collection = ? AND key >= ?;

-- name: drop_records_between
DELETE FROM records WHERE conversation = ? AND collection = ? AND key >= ? AND key < ?;

-- name: tag
INSERT OR IGNORE INTO tags (owner, name, value, conversation, ref) VALUES (?, ?, ?, ?, ?);

-- name: untag
DELETE FROM tags WHERE owner = ? AND name = ? AND value = ? AND conversation = ? AND ref = ?;

-- name: untag_all
DELETE FROM tags WHERE owner = ? AND name = ? AND value = ? AND conversation = ?;

-- name: wake
UPDATE conversations SET wake_at = ?2 WHERE pk = ?1 AND (wake_at IS NULL OR wake_at > ?2);

-- name: rest
UPDATE conversations SET wake_at = NULL WHERE pk = ?;

-- name: let_go
UPDATE conversations SET holder = NULL, lease_until = 0 WHERE pk = ?;

-- name: header
SELECT c.pk, c.owner, c.id, c.last_seq, c.changes, c.version, c.created_at, c.activity, c.tail, c.status,
    c.agent, c.takeovers, c.wake_at, c.fences, c.holder, c.lease_until, p.title, CAST(p.metadata AS BLOB),
    CAST(p.settings AS BLOB), p.forked_from, p.forked_at, c.unsettled_from
FROM conversations c JOIN profiles p ON p.conversation = c.pk;

-- name: events_between
SELECT n & 4294967295, type, CAST(data AS BLOB), at, id FROM events WHERE n > ? AND n < ? ORDER BY n;

-- name: newest_events_between
SELECT n & 4294967295, type, CAST(data AS BLOB), at, id FROM events WHERE n > ? AND n < ? ORDER BY n DESC LIMIT ?;

-- name: texts_between
SELECT n, search, CAST(data AS BLOB) FROM events WHERE n > ? AND n < ? AND search IS NOT NULL;

-- name: calls
SELECT c.owner, c.id, k.call_id, k.name, k.status, k.executor, k.step, k.data, k.opened_at, k.expires_at
FROM calls k JOIN conversations c ON c.pk = k.conversation;

-- name: records
SELECT collection, key, data, revision FROM records WHERE conversation = ? AND collection = ?;

-- name: collections
SELECT DISTINCT collection FROM records WHERE conversation = ?;

-- name: tags_of
SELECT name, value, ref FROM tags WHERE conversation = ?;

-- name: owners
SELECT DISTINCT owner FROM conversations WHERE owner > ? ORDER BY owner LIMIT ?;

-- name: find
SELECT c.id, t.ref FROM tags t JOIN conversations c ON c.pk = t.conversation AND c.owner = t.owner
WHERE t.owner = ? AND t.name = ? AND t.value = ? ORDER BY c.id, t.ref LIMIT ?;

-- name: lease_state
SELECT pk, fences, holder, lease_until FROM conversations WHERE owner = ? AND id = ?;

-- name: take_lease
UPDATE conversations SET fences = fences + 1, holder = ?, lease_until = ?, takeovers = takeovers + ? WHERE pk = ?;

-- name: ready
SELECT pk, owner, id, fences, holder FROM conversations
WHERE wake_at IS NOT NULL AND max(wake_at, lease_until) <= ? AND owner IS NOT NULL;

-- name: renew
UPDATE conversations SET lease_until = ?
WHERE owner = ? AND id = ? AND pk = ? AND fences = ? AND holder = ? AND lease_until > ?;

-- name: release
UPDATE conversations SET holder = NULL, lease_until = 0
WHERE owner = ? AND id = ? AND pk = ? AND fences = ? AND holder IS NOT NULL;

-- name: defer
UPDATE conversations SET wake_at = ? WHERE pk = ?;

-- name: hide
UPDATE conversations
SET owner = NULL, id = NULL, hidden_owner = owner, wake_at = NULL, holder = NULL, lease_until = 0 WHERE pk = ?;

-- name: hidden
SELECT pk, hidden_owner, unsettled_from FROM conversations WHERE owner IS NULL AND lease_until <= ?;

-- name: count_calls
SELECT count(*) FROM calls WHERE conversation = ?;

-- name: count_records
SELECT count(*) FROM records WHERE conversation = ?;

-- name: count_tags
SELECT count(*) FROM tags WHERE conversation = ?;

-- name: last_of_slice
SELECT max(n) FROM (SELECT n FROM events WHERE n > ? AND n < ? ORDER BY n LIMIT ?);

-- name: delete_events
DELETE FROM events WHERE n BETWEEN ? AND ?;

-- name: delete_calls
DELETE FROM calls WHERE pk IN (SELECT pk FROM calls WHERE conversation = ? LIMIT ?);

-- name: delete_records
DELETE FROM records WHERE pk IN (SELECT pk FROM records WHERE conversation = ? LIMIT ?);

-- name: delete_event_ids
DELETE FROM event_ids WHERE conversation = ?1 AND id IN (SELECT id FROM event_ids WHERE conversation = ?1 LIMIT ?2);

-- name: delete_tokens
DELETE FROM tokens WHERE conversation = ?1 AND token IN (SELECT token FROM tokens WHERE conversation = ?1 LIMIT ?2);

-- name: delete_tags
DELETE FROM tags WHERE (owner, name, value, conversation, ref) IN
    (SELECT owner, name, value, conversation, ref FROM tags WHERE conversation = ? LIMIT ?);

-- name: delete_profile
DELETE FROM profiles WHERE conversation = ?;

-- name: delete_conversation
DELETE FROM conversations WHERE pk = ?;

-- name: searchable_between
SELECT n, search, CAST(data AS BLOB) FROM events WHERE n BETWEEN ? AND ? AND search IS NOT NULL;

-- name: fork_hidden
INSERT INTO conversations (last_seq, created_at, activity, agent, lease_until)
SELECT ?, ?, ?, agent, ? FROM conversations WHERE pk = ?;

-- name: fork_profile
INSERT INTO profiles (conversation, title, metadata, settings, forked_from, forked_at)
SELECT ?, title, metadata, settings, ?, ? FROM profiles WHERE conversation = ?;

-- name: fork_events
INSERT INTO events (n, type, data, at, id, search)
SELECT n + ?, type, data, at, id, search FROM events WHERE n BETWEEN ? AND ?;

-- name: fork_ids
INSERT INTO event_ids (conversation, id, seq)
SELECT ?, id, n & 4294967295 FROM events WHERE n BETWEEN ? AND ? AND id IS NOT NULL;

-- name: fork_records
INSERT INTO records (conversation, collection, key, revision, data)
SELECT ?, collection, key, 1, data FROM records WHERE conversation = ? AND collection = ?;

-- name: fork_state
SELECT last_seq, redactions FROM conversations WHERE owner = ? AND id = ? AND pk = ?;

-- name: keep_hidden
UPDATE conversations SET lease_until = ? WHERE pk = ?;

-- name: reveal
UPDATE conversations SET owner = ?, id = ?, created_at = ?, activity = ?, lease_until = 0, unsettled_from = ?
WHERE pk = ?;

-- name: unsettled
SELECT pk, owner, id, unsettled_from, last_seq, activity FROM conversations
WHERE unsettled_from IS NOT NULL AND owner IS NOT NULL LIMIT ?;

-- name: settle
UPDATE conversations SET last_seq = ?, activity = ?, unsettled_from = ? WHERE pk = ?;

-- name: any_unsettled
SELECT 1 FROM conversations WHERE unsettled_from IS NOT NULL AND owner IS NOT NULL LIMIT 1;

-- name: owner_unsettled
SELECT 1 FROM conversations WHERE unsettled_from IS NOT NULL AND owner = ? LIMIT 1;

-- name: searchable_from
SELECT n, search, CAST(data AS BLOB) FROM events WHERE n >= ? AND n < ? AND search IS NOT NULL ORDER BY n LIMIT ?;

-- name: index_text
INSERT INTO texts (rowid, words, owner) VALUES (?, ?, ?);

-- name: unindex_text
INSERT INTO texts (texts, rowid, words, owner) VALUES ('delete', ?, ?, ?);

-- name: empty_index
INSERT INTO texts (texts) VALUES ('delete-all');

-- name: mark_all_unsettled
UPDATE conversations SET unsettled_from = 1 WHERE owner IS NOT NULL;

-- name: search
SELECT c.id, e.n & 4294967295, e.search, CAST(e.data AS BLOB)
FROM texts t JOIN events e ON e.n = t.rowid JOIN conversations c ON c.pk = e.n >> 32
WHERE t.texts MATCH ? AND c.owner = ? AND e.search IS NOT NULL
ORDER BY bm25(t.texts, 1.0, 0.0), e.at DESC, e.n DESC LIMIT ?;

-- name: marks
SELECT pk, changes, wake_at, holder,
    (SELECT max(n) FROM events WHERE n > c.pk << 32 AND n < (c.pk + 1) << 32)
FROM conversations c WHERE owner = ? AND id = ?;
