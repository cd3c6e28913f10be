-- Take a conversation's name away: from here on it does not exist for anybody.
-- KEYS  1 head 2 log 3 names 4 open 5 active 6 born 7 owners 8 numbers 9 work 10 hidden
--       11 head 12 log 13 names 14 open under the hidden name
-- ARGV  1 now 2 owner 3 id 4 hidden name 5 revision that it must have, or ''
--       6 activity that it must not have passed, or '' 7 channel 8 shard's channel 9 publish
local head, owner, id = KEYS[1], ARGV[2], ARGV[3]
local found = redis.call('HMGET', head, 'base', 'seq', 'rev', 'fence', 'act', 'wake', 'until')
if not found[1] then return {} end
if ARGV[5] ~= '' and ARGV[5] ~= found[3] then return {found[3]} end
local now = clock(ARGV[1])
if ARGV[6] ~= '' then
  local leased = tonumber(found[7] or '0') > now
  if leased or found[6] or tonumber(found[5]) > now - tonumber(ARGV[6]) then return {} end
end
local counts = {found[2], redis.call('ZLEXCOUNT', KEYS[3], '[c', '(d'),
  redis.call('ZLEXCOUNT', KEYS[3], '[r', '(s'), redis.call('ZLEXCOUNT', KEYS[3], '[t', '(u')}

-- Whoever comes under this name next begins above every number that was given to this one.
local numbers = redis.call('HGET', KEYS[8], 'last') or '0'
redis.call('HSET', KEYS[8], 'last',
  whole(math.max(tonumber(numbers), tonumber(found[3]), tonumber(found[4] or '0'))))
redis.call('HSET', head, 'owner', owner, 'id', id)
for i = 1, 4 do
  if redis.call('EXISTS', KEYS[i]) == 1 then redis.call('RENAME', KEYS[i], KEYS[10 + i]) end
end
redis.call('ZADD', KEYS[10], whole(now), ARGV[4])
redis.call('ZREM', KEYS[5], id)
redis.call('ZREM', KEYS[6], id)
if redis.call('EXISTS', KEYS[6]) == 0 then redis.call('ZREM', KEYS[7], owner) end
redis.call('ZREM', KEYS[9], owner .. '\0' .. id)
tell(ARGV[9], ARGV[7], ARGV[8])
return counts
