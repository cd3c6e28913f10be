-- Words in braces are filled in: p is the prefix of the tables, window the microseconds that the column
-- listed may be behind activity, now the test's clock or the server's, when the statement began.
-- A parameter may be a list; COALESCE(:list) IS NULL says that none was given. place is the hash by which
-- a conversation is found, and the order in which several are locked.
-- An UPDATE of one table assigns from left to right, and sees what it has assigned.

-- name: state
SELECT VERSION(), @@global.innodb_flush_log_at_trx_commit, @@global.log_bin, @@global.sync_binlog,
    @@global.max_allowed_packet, @@global.read_only, @@global.innodb_page_size, DATABASE(),
    (SELECT COUNT(*) FROM information_schema.tables
        WHERE table_schema = DATABASE() AND table_name = '{p}migrations'),
    (SELECT COUNT(*) FROM information_schema.tables
        WHERE table_schema = DATABASE() AND table_name = '{p}conversations')

-- name: applied
SELECT name FROM {p}migrations ORDER BY name

-- name: lock
SELECT GET_LOCK(:name, :seconds)

-- name: append_head
UPDATE {p}conversations
SET unindexed_from = CASE WHEN :search IS NULL THEN unindexed_from
        ELSE COALESCE(unindexed_from, last_seq + 1) END,
    last_seq = last_seq + 1, commits = commits + 1, activity = GREATEST(activity, {now}),
    listed = CASE WHEN activity - listed > {window} THEN activity ELSE listed END
WHERE place = :place AND (:expect IS NULL OR last_seq = :expect)
    AND (:fence IS NULL OR (pk = :fenced_pk AND fences = :fence AND holder IS NOT NULL))

-- name: append_event
INSERT INTO {p}events (conversation, seq, type, data, at, search)
SELECT pk, last_seq, :type, :data, activity, :search FROM {p}conversations
WHERE place = :place AND ROW_COUNT() = 1

-- name: appended
SELECT pk, last_seq, activity FROM {p}conversations WHERE place = :place

-- name: now
SELECT {now}

-- name: look
SELECT place, pk, last_seq, commits, version, activity, fences, holder, listed, tail, status, agent,
    takeovers, redactions, wake_at, lease_until, unindexed_from
FROM {p}conversations FORCE INDEX (place) WHERE place IN (:places) ORDER BY place FOR UPDATE

-- name: look_token
SELECT c.pk, t.digest, t.result
FROM (:given) g STRAIGHT_JOIN {p}conversations c FORCE INDEX (place) ON c.place = g.place
STRAIGHT_JOIN {p}tokens t FORCE INDEX (PRIMARY) ON t.conversation = c.pk AND t.token = g.token

-- name: look_calls
SELECT c.pk, k.call_id, k.name, k.status, k.executor, k.step, k.data, k.opened_at, k.expires_at
FROM (:given) g STRAIGHT_JOIN {p}conversations c FORCE INDEX (place) ON c.place = g.place
STRAIGHT_JOIN {p}calls k FORCE INDEX (PRIMARY) ON k.conversation = c.pk AND k.call_id = g.call_id

-- name: look_awake
SELECT c.pk, k.call_id
FROM (:given) g STRAIGHT_JOIN {p}conversations c FORCE INDEX (place) ON c.place = g.place
STRAIGHT_JOIN {p}calls k FORCE INDEX (open_here) ON k.conversation = c.pk AND k.open_at > -1
WHERE k.status = 'detached' OR (k.status = 'executing' AND k.executor = 'server')

-- name: look_records
SELECT c.pk, r.collection, r.`key`, r.revision
FROM (:given) g STRAIGHT_JOIN {p}conversations c FORCE INDEX (place) ON c.place = g.place
STRAIGHT_JOIN {p}records r FORCE INDEX (PRIMARY)
    ON r.conversation = c.pk AND r.collection = g.collection AND r.`key` = g.name

-- name: look_ids
SELECT c.pk, e.id, e.seq
FROM (:given) g STRAIGHT_JOIN {p}conversations c FORCE INDEX (place) ON c.place = g.place
STRAIGHT_JOIN {p}events e FORCE INDEX (id) ON e.conversation = c.pk AND e.id = g.id

-- name: look_events
SELECT c.pk, e.seq, e.type, e.data
FROM (:given) g STRAIGHT_JOIN {p}conversations c FORCE INDEX (place) ON c.place = g.place
STRAIGHT_JOIN {p}events e FORCE INDEX (PRIMARY) ON e.conversation = c.pk AND e.seq = g.seq

-- name: create
INSERT INTO {p}conversations (place, owner, id, created_at) VALUES (:place, :owner, :id, :now)

-- name: create_profiles
INSERT INTO {p}profiles (conversation, title, metadata, settings) VALUES :rows

-- name: write_heads
INSERT INTO {p}conversations (pk, last_seq, commits, activity, listed, unindexed_from) VALUES :rows
ON DUPLICATE KEY UPDATE last_seq = VALUES(last_seq), commits = VALUES(commits), activity = VALUES(activity),
    listed = VALUES(listed), unindexed_from = VALUES(unindexed_from)

-- name: write_whole_heads
INSERT INTO {p}conversations (pk, last_seq, commits, activity, listed, unindexed_from, version, tail, status,
    agent, takeovers, redactions, wake_at, holder, lease_until, ready_at) VALUES :rows
ON DUPLICATE KEY UPDATE last_seq = VALUES(last_seq), commits = VALUES(commits), activity = VALUES(activity),
    listed = VALUES(listed), unindexed_from = VALUES(unindexed_from), version = VALUES(version),
    tail = VALUES(tail), status = VALUES(status), agent = VALUES(agent), takeovers = VALUES(takeovers),
    redactions = VALUES(redactions), wake_at = VALUES(wake_at), holder = VALUES(holder),
    lease_until = VALUES(lease_until), ready_at = VALUES(ready_at)

-- name: write_events
INSERT INTO {p}events (conversation, seq, type, data, at, id, search) VALUES :rows

-- name: write_calls
INSERT INTO {p}calls (conversation, owner, call_id, name, status, executor, step, data, opened_at, expires_at,
    open_at, opened_by, place) VALUES :rows
ON DUPLICATE KEY UPDATE status = VALUES(status), step = VALUES(step), data = VALUES(data),
    expires_at = VALUES(expires_at), open_at = VALUES(open_at)

-- name: write_drop
DELETE FROM {p}records WHERE conversation = :pk AND collection = :collection AND `key` >= :first
    AND (:until IS NULL OR `key` < :until)

-- name: write_records
INSERT INTO {p}records (conversation, collection, `key`, data, revision) VALUES :rows
ON DUPLICATE KEY UPDATE data = VALUES(data), revision = VALUES(revision)

-- name: write_untag
DELETE FROM {p}tags WHERE mark = :mark AND conversation = :pk AND (:ref IS NULL OR ref = :ref)

-- name: write_tags
INSERT INTO {p}tags (conversation, mark, ref, name, value) VALUES :rows ON DUPLICATE KEY UPDATE name = VALUES(name)

-- name: write_profile
UPDATE {p}profiles SET title = COALESCE(:title, title), metadata = COALESCE(:metadata, metadata),
    settings = COALESCE(:settings, settings)
WHERE conversation = :pk

-- name: write_tombstone
UPDATE {p}events SET type = 'redacted', data = :data, search = NULL WHERE conversation = :pk AND seq = :seq

-- name: unindex_bits
UPDATE {p}words FORCE INDEX (chunk) SET bits = bits & ~(1 << (:seq & 63))
WHERE conversation = :pk AND chunk = :seq >> 6 AND bits & (1 << (:seq & 63))

-- name: unindex_words
DELETE FROM {p}words WHERE conversation = :pk AND chunk = :seq >> 6 AND bits = 0

-- name: write_tokens
INSERT INTO {p}tokens (conversation, token, digest, result) VALUES :rows

-- name: header
SELECT c.pk, c.owner, c.id, c.last_seq, c.commits, c.version, c.created_at, c.activity, c.tail, c.status,
    c.agent, c.takeovers, c.wake_at, c.fences, c.holder, c.lease_until, p.title, p.metadata, p.settings,
    p.forked_from, p.forked_at
FROM {p}conversations c JOIN {p}profiles p ON p.conversation = c.pk
WHERE c.place = :place

-- name: events
(SELECT e.seq, e.type, e.data, e.at, e.id FROM {p}events e
WHERE e.conversation = (SELECT pk FROM {p}conversations WHERE place = :place)
    AND e.seq > :after AND e.seq < :before
ORDER BY e.seq DESC LIMIT :limit)
UNION ALL SELECT NULL, NULL, NULL, NULL, NULL FROM {p}conversations WHERE place = :place

-- name: texts
SELECT e.seq, e.search, e.data
FROM {p}conversations c
LEFT JOIN {p}events e ON e.conversation = c.pk AND e.seq > :after AND e.seq < :before AND e.search IS NOT NULL
WHERE c.place = :place

-- name: calls
SELECT c.owner, c.id, k.call_id, k.name, k.status, k.executor, k.step, k.data, k.opened_at, k.expires_at
FROM {p}conversations c
LEFT JOIN {p}calls k ON k.conversation = c.pk
    AND (COALESCE(:status) IS NULL OR k.status IN (:status))
    AND (COALESCE(:call_ids) IS NULL OR k.call_id IN (:call_ids))
WHERE c.place = :place
ORDER BY k.opened_by, k.place

-- name: records
(SELECT r.conversation, r.collection, r.`key`, r.data, r.revision FROM {p}records r
WHERE r.conversation = (SELECT pk FROM {p}conversations WHERE place = :place) AND r.collection = :collection
    AND r.`key` >= :first AND r.`key` > :after
    AND (:before IS NULL OR r.`key` < :before) AND (:until IS NULL OR r.`key` < :until)
ORDER BY r.`key` LIMIT :limit)
UNION ALL SELECT pk, NULL, NULL, NULL, NULL FROM {p}conversations WHERE place = :place

-- name: records_reversed
(SELECT r.conversation, r.collection, r.`key`, r.data, r.revision FROM {p}records r
WHERE r.conversation = (SELECT pk FROM {p}conversations WHERE place = :place) AND r.collection = :collection
    AND r.`key` >= :first AND r.`key` > :after
    AND (:before IS NULL OR r.`key` < :before) AND (:until IS NULL OR r.`key` < :until)
ORDER BY r.`key` DESC LIMIT :limit)
UNION ALL SELECT pk, NULL, NULL, NULL, NULL FROM {p}conversations WHERE place = :place

-- name: records_by_key
SELECT c.pk, r.collection, r.`key`, r.data, r.revision
FROM {p}conversations c
LEFT JOIN {p}records r ON r.conversation = c.pk AND r.collection = :collection AND r.`key` IN (:keys)
WHERE c.place = :place

-- name: collections
SELECT DISTINCT r.collection
FROM {p}conversations c JOIN {p}records r ON r.conversation = c.pk WHERE c.place = :place

-- name: tags
SELECT t.name, t.value, t.ref
FROM {p}conversations c JOIN {p}tags t ON t.conversation = c.pk WHERE c.place = :place

-- name: headers_bound
SET @holdfast_listed = (
    SELECT CASE WHEN COUNT(*) < :limit THEN 0 ELSE MIN(activity) - {window} END FROM (
        SELECT activity FROM {p}conversations FORCE INDEX (listed)
        WHERE owner = :owner AND listed <= :at AND (activity < :at OR (activity = :at AND id < :id))
        ORDER BY listed DESC LIMIT :limit
    ) page
)

-- name: headers_by_activity
SELECT c.pk, c.owner, c.id, c.last_seq, c.commits, c.version, c.created_at, c.activity, c.tail, c.status,
    c.agent, c.takeovers, c.wake_at, c.fences, c.holder, c.lease_until, p.title, p.metadata, p.settings,
    p.forked_from, p.forked_at
FROM (
    SELECT c.* FROM {p}conversations c FORCE INDEX (listed)
    WHERE c.owner = :owner AND c.listed <= :at AND c.listed >= @holdfast_listed
        AND (c.activity < :at OR (c.activity = :at AND c.id < :id))
    ORDER BY c.activity DESC, c.id DESC LIMIT :limit
) c JOIN {p}profiles p ON p.conversation = c.pk
ORDER BY c.activity DESC, c.id DESC

-- name: headers_by_creation
SELECT c.pk, c.owner, c.id, c.last_seq, c.commits, c.version, c.created_at, c.activity, c.tail, c.status,
    c.agent, c.takeovers, c.wake_at, c.fences, c.holder, c.lease_until, p.title, p.metadata, p.settings,
    p.forked_from, p.forked_at
FROM {p}conversations c JOIN {p}profiles p ON p.conversation = c.pk
WHERE c.owner = :owner AND c.created_at <= :at AND (c.created_at < :at OR c.id < :id)
ORDER BY c.created_at DESC, c.id DESC LIMIT :limit

-- name: headers_by_tag
SELECT c.pk, c.owner, c.id, c.last_seq, c.commits, c.version, c.created_at, c.activity, c.tail, c.status,
    c.agent, c.takeovers, c.wake_at, c.fences, c.holder, c.lease_until, p.title, p.metadata, p.settings,
    p.forked_from, p.forked_at
FROM (
    SELECT c.*, CASE WHEN :by_activity THEN c.activity ELSE c.created_at END AS moment
    FROM (SELECT DISTINCT conversation FROM {p}tags WHERE mark = :mark) t
    JOIN {p}conversations c ON c.pk = t.conversation WHERE c.owner = :owner
) c JOIN {p}profiles p ON p.conversation = c.pk
WHERE c.moment < :at OR (c.moment = :at AND c.id < :id)
ORDER BY c.moment DESC, c.id DESC LIMIT :limit

-- name: owners
SELECT DISTINCT owner FROM {p}conversations WHERE owner > :after ORDER BY owner LIMIT :limit

-- name: open_calls
SELECT c.owner, c.id, k.call_id, k.name, k.status, k.executor, k.step, k.data, k.opened_at, k.expires_at
FROM {p}calls k JOIN {p}conversations c ON c.pk = k.conversation AND c.owner = k.owner
WHERE k.owner = :owner AND k.open_at > -1 AND k.status IN (:status)
ORDER BY k.open_at, c.id, k.opened_by, k.place LIMIT :limit

-- name: due
SELECT c.owner, c.id, k.call_id, k.name, k.status, k.executor, k.step, k.data, k.opened_at, k.expires_at
FROM {p}calls k JOIN {p}conversations c ON c.pk = k.conversation
WHERE k.expires_at <= {now} AND c.owner IS NOT NULL
ORDER BY k.expires_at, c.owner, c.id, k.call_id LIMIT :limit

-- name: find
SELECT c.id, t.ref FROM {p}tags t JOIN {p}conversations c ON c.pk = t.conversation
WHERE t.mark = :mark AND c.owner = :owner ORDER BY c.id, t.ref LIMIT :limit

-- name: load_events
SELECT e.seq, e.type, e.data, e.at, e.id
FROM {p}conversations c JOIN {p}events e ON e.conversation = c.pk AND e.seq >= c.tail
WHERE c.place = :place ORDER BY e.seq

-- name: load_calls
SELECT c.owner, c.id, k.call_id, k.name, k.status, k.executor, k.step, k.data, k.opened_at, k.expires_at
FROM {p}conversations c JOIN {p}calls k ON k.conversation = c.pk AND k.open_at > -1
WHERE c.place = :place ORDER BY k.opened_by, k.place

-- name: load_records
SELECT c.pk, r.collection, r.`key`, r.data, r.revision
FROM (:given) g STRAIGHT_JOIN {p}conversations c
STRAIGHT_JOIN {p}records r ON r.conversation = c.pk AND r.collection = g.collection AND r.`key` = g.name
WHERE c.place = :place

-- name: acquire
UPDATE {p}conversations
SET takeovers = takeovers + (holder IS NOT NULL AND lease_until <= {now}), fences = fences + 1,
    holder = :holder, lease_until = {now} + :ttl, ready_at = GREATEST(wake_at, lease_until)
WHERE place = :place AND (holder IS NULL OR holder = :holder OR lease_until <= {now})

-- name: lease
SELECT pk, fences, lease_until FROM {p}conversations WHERE place = :place

-- name: exists
SELECT pk, commits FROM {p}conversations WHERE place = :place

-- name: ready
SELECT pk, owner, id, fences, {now} FROM {p}conversations FORCE INDEX (ready)
WHERE ready_at <= {now} AND (COALESCE(:agents) IS NULL OR agent IN (:agents))
ORDER BY ready_at, pk LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: claim
UPDATE {p}conversations
SET takeovers = takeovers + (holder IS NOT NULL), fences = fences + 1, holder = :holder,
    lease_until = :until, ready_at = GREATEST(wake_at, lease_until)
WHERE pk IN (:pks)

-- name: renew
UPDATE {p}conversations SET lease_until = :until, ready_at = GREATEST(wake_at, lease_until) WHERE pk IN (:pks)

-- name: release
UPDATE {p}conversations
SET wake_at = CASE WHEN :defer IS NULL THEN wake_at ELSE {now} + :defer END, holder = NULL, lease_until = 0,
    ready_at = wake_at
WHERE place = :place AND pk = :pk AND fences = :fence AND holder IS NOT NULL

-- name: hide
UPDATE {p}conversations
SET place = NULL, owner = NULL, id = NULL, commits = commits + 1, wake_at = NULL, holder = NULL,
    lease_until = 0, ready_at = NULL, unindexed_from = NULL
WHERE pk = :pk

-- name: counts
SELECT (SELECT COUNT(*) FROM {p}calls WHERE conversation = :pk),
    (SELECT COUNT(*) FROM {p}records WHERE conversation = :pk),
    (SELECT COUNT(*) FROM {p}tags WHERE conversation = :pk)

-- name: abandon
UPDATE {p}conversations FORCE INDEX (listed) SET lease_until = 0 WHERE owner IS NULL AND lease_until <= {now}

-- name: hidden
SELECT pk FROM {p}conversations FORCE INDEX (listed) WHERE owner IS NULL AND lease_until = 0

-- name: remove_events
DELETE FROM {p}events WHERE conversation = :pk ORDER BY seq LIMIT 1000

-- name: remove_words
DELETE FROM {p}words WHERE conversation = :pk LIMIT 1000

-- name: remove_records
DELETE FROM {p}records WHERE conversation = :pk ORDER BY collection, `key` LIMIT 1000

-- name: remove_calls
DELETE FROM {p}calls WHERE conversation = :pk ORDER BY call_id LIMIT 1000

-- name: remove_tags
DELETE FROM {p}tags WHERE conversation = :pk LIMIT 1000

-- name: remove_tokens
DELETE FROM {p}tokens WHERE conversation = :pk ORDER BY token LIMIT 1000

-- name: remove_profile
DELETE FROM {p}profiles WHERE conversation = :pk

-- name: remove_head
DELETE FROM {p}conversations WHERE pk = :pk AND owner IS NULL

-- name: fork_source
SELECT pk, last_seq, redactions FROM {p}conversations WHERE place = :place

-- name: fork_begin
INSERT INTO {p}conversations (last_seq, created_at, activity, listed, agent, lease_until)
SELECT :at, {now}, {now}, {now}, agent, {now} + :hidden_for FROM {p}conversations WHERE pk = :source

-- name: fork_profile
INSERT INTO {p}profiles (conversation, title, metadata, settings, forked_from, forked_at)
SELECT LAST_INSERT_ID(), title, metadata, settings, :id, :at FROM {p}profiles
WHERE conversation = :source AND ROW_COUNT() = 1

-- name: fork_alive
UPDATE {p}conversations SET lease_until = {now} + :hidden_for WHERE pk = :pk AND lease_until > 0

-- name: fork_slice
INSERT INTO {p}events (conversation, seq, type, data, at, id, search)
SELECT :pk, seq, type, data, at, id, search FROM {p}events
WHERE conversation = :source AND seq > :after AND seq <= :until AND ROW_COUNT() = 1

-- name: fork_lock
SELECT redactions FROM {p}conversations WHERE pk = :source AND place = :place LOCK IN SHARE MODE

-- name: fork_reveal
UPDATE {p}conversations
SET place = :place, owner = :owner, id = :id, created_at = {now}, activity = {now}, listed = {now},
    lease_until = 0, unindexed_from = (SELECT MIN(e.seq) FROM {p}events e
        WHERE e.conversation = :pk AND e.search IS NOT NULL)
WHERE pk = :pk AND lease_until > 0

-- name: fork_records
INSERT INTO {p}records (conversation, collection, `key`, revision, data)
SELECT :pk, collection, `key`, 1, data FROM {p}records
WHERE conversation = :source AND collection IN (:collections)

-- name: unindexed
SELECT pk, owner, unindexed_from, last_seq, redactions, place FROM {p}conversations FORCE INDEX (unindexed)
WHERE unindexed_from > 0 AND owner IS NOT NULL AND pk > :after
    AND (:owner IS NULL OR owner = :owner) AND (COALESCE(:pks) IS NULL OR pk IN (:pks))
ORDER BY pk LIMIT :limit

-- name: unindexed_texts
SELECT e.conversation, e.seq, e.search, e.data
FROM (
    SELECT seq, SUM(LENGTH(data)) OVER (ORDER BY seq) - LENGTH(data) AS before_it
    FROM {p}events WHERE conversation = :pk AND seq BETWEEN :first AND :last AND search IS NOT NULL
) s JOIN {p}events e ON e.conversation = :pk AND e.seq = s.seq
WHERE s.before_it < :bytes ORDER BY e.seq

-- name: index_words
INSERT INTO {p}words (owner, word, conversation, chunk, bits) VALUES :rows
ON DUPLICATE KEY UPDATE bits = bits | VALUES(bits)

-- name: index_lock
SELECT pk, last_seq, unindexed_from, redactions FROM {p}conversations FORCE INDEX (place)
WHERE place IN (:places) ORDER BY place FOR UPDATE

-- name: indexed
UPDATE {p}conversations SET unindexed_from = :next WHERE pk = :pk

-- name: search_beginning
SELECT conversation, chunk, BIT_OR(bits) AS bits FROM {p}words
WHERE owner = :mark AND word >= :first AND (:until IS NULL OR word < :until) GROUP BY conversation, chunk

-- name: search_word
SELECT m.conversation, m.chunk, m.bits & w.bits AS bits
FROM (:found) m JOIN {p}words w
    ON w.owner = :mark AND w.word = :word AND w.conversation = m.conversation AND w.chunk = m.chunk

-- name: search
SELECT c.id, e.seq, e.search, e.data
FROM (
    SELECT m.conversation, e.seq, e.at, c.id
    FROM (:found) m JOIN {p}conversations c ON c.pk = m.conversation AND c.owner = :owner
    JOIN {p}events e ON e.conversation = m.conversation AND e.seq >= m.chunk * 64 AND e.seq < m.chunk * 64 + 64
    WHERE m.bits & (1 << (e.seq & 63)) AND e.search IS NOT NULL
    ORDER BY e.at DESC, c.id DESC, e.seq DESC LIMIT :limit OFFSET :skip
) c JOIN {p}events e ON e.conversation = c.conversation AND e.seq = c.seq
ORDER BY c.at DESC, c.id DESC, c.seq DESC

-- name: moment
SHOW GLOBAL STATUS LIKE 'Handler_update'

-- name: marks
SELECT FIELD(place, :places) AS i, pk, commits, wake_at, holder FROM {p}conversations WHERE place IN (:places)
