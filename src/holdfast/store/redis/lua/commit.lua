-- One commit: first every check, then every write. Nothing is refused once something was written,
-- except to the hidden copy of a fork, which nobody sees.
-- KEYS  1 head 2 log 3 active 4 born 5 owners 6 numbers 7 names 8 open 9 tags 10 waiting 11 due 12 work;
--       of a fork also 13 head 14 log 15 names of the copy, 16 head 17 names of the source, 18 hidden
-- ARGV  1 now 2 id 3 channel 4 shard's channel 5 publish 6 expect 7 fence 8 token 9 digest 10 touch
--       11 operations in msgpack 12… the events without their times, then other payloads
local head, log = KEYS[1], KEYS[2]
local now, id, token = clock(ARGV[1]), ARGV[2], ARGV[8]
local ops, none = cmsgpack.unpack(ARGV[11]), {}
local time = ops.at and math.min(tonumber(ops.at), now) or now

local found = redis.call('HMGET', head, 'base', 'seq', 'act', 'rev')
local base, seq, active, last = found[1], tonumber(found[2]), tonumber(found[3]), tonumber(found[4])
if base and token ~= '' then
  local seen = redis.call('HGET', head, 't\0' .. token)
  if seen then
    -- Without a write there would be nothing that replicas could confirm.
    if ARGV[10] ~= '' then redis.call('HSET', head, 'rev', found[4]) end
    return {'Seen', seen}
  end
end
if not base and not ops.create then return {'NotFound'} end
if base and ops.absent then return {'AlreadyExists'} end

local new, fork = not base, ops.fork
if new then
  base = whole(math.max(now, tonumber(redis.call('HGET', KEYS[6], 'last') or '0') + 1))
  seq, active, last = fork and fork.at or 0, time, tonumber(base)
end
local at, revision = math.max(time, active), whole(math.max(now, last + 1))
local at_text, previous = whole(at), seq

if fork then
  local source = redis.call('HMGET', KEYS[16], 'base', 'cuts')
  head, log = KEYS[13], KEYS[14]
  local is_whole = redis.call('EXISTS', head) == 1 and redis.call('LLEN', log) == fork.at
  if not is_whole or source[1] ~= fork.base or (source[2] or '0') ~= fork.cuts then return {'Again'} end
  copy_records(KEYS[16], KEYS[17], head, KEYS[15], fork.collections)
  for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[15], '[r', '(s')) do
    redis.call('HSET', head, 'r\0' .. string.sub(member, 2), revision)
  end
end

-- Checks

if ARGV[7] ~= '' then
  local lease = redis.call('HMGET', head, 'fence', 'holder')
  if not lease[2] or lease[1] ~= ARGV[7] then return {'Fenced'} end
end
if ARGV[6] ~= '' and tonumber(ARGV[6]) ~= seq then return {'SeqConflict', whole(seq)} end
for _, move in ipairs(ops.moves or none) do
  local call = call_of(redis.call('HGET', head, 'c\0' .. move.id))
  if not call or not string.find(move.when, ' ' .. call.status .. ' ', 1, true) then
    return {'StaleCall', move.id}
  end
  local past = call.expires ~= '-' and tonumber(call.expires) <= now
  local in_time = move.to == 'cancelled' or past == (move.to == 'expired')
  if not in_time or (move.step and move.step ~= call.step) then return {'StaleCall', move.id} end
  move.from = call
end
for _, call in ipairs(ops.opens or none) do
  if redis.call('HEXISTS', head, 'c\0' .. call.id) == 1 then return {'StaleCall', call.id} end
end
for i, put in ipairs(ops.puts or none) do
  if put.when or put.keep then
    local there = redis.call('HGET', head, 'r\0' .. put.name)
    if put.when and put.when ~= (there or '0') then return {'StaleRecord', i} end
    put.kept = put.keep and there
  end
end
local version = ops.header and ops.header.when
if version then
  local actual = not new and redis.call('HGET', head, 'ver') or base
  if version ~= actual then return {'StaleHeader', actual} end
end
if ops.rest then
  local moved = {}
  for _, move in ipairs(ops.moves or none) do
    moved[move.id] = {status = move.to, executor = move.from.executor}
  end
  for _, call_id in ipairs(redis.call('ZRANGE', KEYS[8], 0, -1)) do
    if keeps_awake(moved[call_id] or call_of(redis.call('HGET', head, 'c\0' .. call_id))) then
      return {'Busy', call_id}
    end
  end
end
local redact = ops.redact
if redact then
  local read = true
  for i, number in ipairs(redact.seqs) do
    if number > previous then return {'NoSuchEvent', i} end
    read = read and number <= redact.upto
  end
  -- The tombstones were made from what was read before this script ran.
  local cuts = redis.call('HGET', head, 'cuts') or '0'
  if not fork and not (read and base == redact.base and cuts == redact.cuts) then return {'Again'} end
end

-- Writes

if new then
  local BORN, OWNERS, NAMES, HIDDEN = KEYS[4], KEYS[5], KEYS[7], KEYS[18]
  if fork then
    redis.call('RENAME', KEYS[13], KEYS[1])
    if fork.at > 0 then redis.call('RENAME', KEYS[14], KEYS[2]) end
    if redis.call('EXISTS', KEYS[15]) == 1 then redis.call('RENAME', KEYS[15], NAMES) end
    redis.call('ZREM', HIDDEN, fork.name)
    head, log = KEYS[1], KEYS[2]
  end
  redis.call('HSET', head, 'base', base, 'born', at_text, 'ver', base, 'seq', whole(seq), 'act', at_text)
  if #ops.create > 0 then redis.call('HSET', head, unpack(ops.create)) end
  redis.call('ZADD', BORN, at_text, id)
  redis.call('ZADD', OWNERS, 0, ops.owner)
end

local fields = {'rev', revision}
local function set(field, value)
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end

local seqs, pushed, stamp = {}, {}, string.format('%016.0f', at)
for i = 1, ops.count do
  local name = ops.ids and ops.ids[i] or ''
  local same = ops.same and ops.same[i] or 0
  local known = same > 0 and seqs[same] or (name ~= '' and redis.call('HGET', head, 'i\0' .. name))
  if known then
    seqs[i] = tonumber(known)
  else
    seq = seq + 1
    seqs[i] = seq
    pushed[#pushed + 1] = stamp .. ARGV[11 + i]
    if name ~= '' then set('i\0' .. name, whole(seq)) end
  end
end
in_parts(pushed, function(...) redis.call('RPUSH', log, ...) end)

if ops.opens or ops.moves then
  local NAMES, OPEN, WAITING, DUE = KEYS[7], KEYS[8], KEYS[10], KEYS[11]
  local function expire(call_id, before, after)
    local member = ops.owner .. '\0' .. id .. '\0' .. base .. '\0' .. call_id
    if after ~= '-' then
      redis.call('ZADD', DUE, after, member)
    elseif before ~= '-' then
      redis.call('ZREM', DUE, member)
    end
  end
  local function waiting(call_id, ordinal)
    return table.concat({id, base, string.format('%010d', ordinal), call_id}, '\0')
  end
  local ordinal = tonumber(redis.call('HGET', head, 'calls') or '0')
  for _, op in ipairs(ops.opens or none) do
    ordinal = ordinal + 1
    local expires = op.expires and later(now, op.expires) or '-'
    set('c\0' .. op.id, line_of({status = op.status, executor = op.executor, step = op.step,
      opened = at_text, expires = expires, ordinal = whole(ordinal), name = op.name}))
    set('C\0' .. op.id, ARGV[op.data])
    redis.call('ZADD', NAMES, 0, string.format('c%010d', ordinal) .. op.id)
    if not op.final then
      redis.call('ZADD', OPEN, ordinal, op.id)
      redis.call('ZADD', WAITING, at_text, waiting(op.id, ordinal))
    end
    expire(op.id, '-', expires)
  end
  if ops.opens then set('calls', whole(ordinal)) end
  for _, op in ipairs(ops.moves or none) do
    local call, before = op.from, op.from.expires
    if op.to == 'interrupted' and call.status ~= 'interrupted' then
      call.step = whole(tonumber(call.step) + 1)
    end
    call.status, call.expires = op.to, op.expires and later(now, op.expires) or '-'
    set('c\0' .. op.id, line_of(call))
    if op.data then set('C\0' .. op.id, ARGV[op.data]) end
    if op.final then
      redis.call('ZREM', OPEN, op.id)
      redis.call('ZREM', WAITING, waiting(op.id, tonumber(call.ordinal)))
    end
    expire(op.id, before, call.expires)
  end
end

-- One name by its member, or all that begin with a prefix: no name has the byte 255 in it.
local function members(of)
  if of.member then return {of.member} end
  return redis.call('ZRANGEBYLEX', KEYS[7], '[' .. of.prefix, '(' .. of.prefix .. '\255')
end

local cuts, revisions = 0, {}
for _, drop in ipairs(ops.drops or none) do
  for _, member in ipairs(members(drop)) do
    local name = string.sub(member, 2)
    redis.call('HDEL', head, 'r\0' .. name, 'R\0' .. name)
    cuts = cuts + redis.call('ZREM', KEYS[7], member)
  end
end
for i, put in ipairs(ops.puts or none) do
  revisions[i] = put.kept or revision
  if not put.kept then
    set('r\0' .. put.name, revision)
    set('R\0' .. put.name, ARGV[put.data])
    redis.call('ZADD', KEYS[7], 0, 'r' .. put.name)
  end
end

for _, untag in ipairs(ops.untags or none) do
  for _, member in ipairs(members(untag)) do
    local name, ref = string.match(member, '^t(.*%z)([^%z]*)$')
    redis.call('ZREM', KEYS[9], name .. id .. '\0' .. ref .. '\0' .. base)
    redis.call('ZREM', KEYS[7], member)
  end
end
for _, tag in ipairs(ops.tags or none) do
  redis.call('ZADD', KEYS[9], 0, tag.name .. id .. '\0' .. tag.ref .. '\0' .. base)
  redis.call('ZADD', KEYS[7], 0, 't' .. tag.name .. tag.ref)
end

if ops.rest then
  redis.call('HDEL', head, 'wake')
  if ops.rest.release then redis.call('HDEL', head, 'holder', 'until') end
end
if ops.wake then
  local wake, mark = later(now, ops.wake), redis.call('HGET', head, 'wake')
  if not mark or tonumber(wake) < tonumber(mark) then redis.call('HSET', head, 'wake', wake) end
end
if ops.rest or ops.wake then queue(head, KEYS[12], ops.owner .. '\0' .. id) end

for _, tomb in ipairs(redact and redact.tombs or none) do
  redis.call('LSET', log, tomb.index, ARGV[tomb.data])
  cuts = cuts + 1
end
if cuts > 0 then redis.call('HINCRBY', head, 'cuts', cuts) end

if ops.header then
  set('ver', revision)
  for _, value in ipairs(ops.header.fields) do fields[#fields + 1] = value end
end
if seq > previous then set('seq', whole(seq)) end
if seq > previous or ops.puts then
  set('act', at_text)
  redis.call('ZADD', KEYS[3], at_text, id)
elseif new then
  redis.call('ZADD', KEYS[3], at_text, id)
end

local answer = table.concat({whole(previous), whole(seq), at_text, revision}, ' ')
if ops.ids then answer = answer .. ';' .. table.concat(seqs, ' ') .. ';' .. table.concat(revisions, ' ') end
if token ~= '' then set('t\0' .. token, answer .. '\n' .. ARGV[9]) end
in_parts(fields, function(...) redis.call('HSET', head, ...) end)
tell(ARGV[5], ARGV[3], ARGV[4])
return answer
