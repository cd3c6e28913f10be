-- A commit of nothing but events without ids, which is what most commits are: commit.lua in short.
-- KEYS  1 head 2 log 3 active
-- ARGV  1 now 2 id 3 channel 4 shard's channel 5 publish 6 expect 7 fence 8 token 9 digest 10 touch
--       11… the events without their times
local head, log, token = KEYS[1], KEYS[2], ARGV[8]
local found = redis.call('HMGET', head, 'base', 'seq', 'act', 'rev')
if not found[1] then return {'NotFound'} end
if token ~= '' then
  local seen = redis.call('HGET', head, 't\0' .. token)
  if seen then
    if ARGV[10] ~= '' then redis.call('HSET', head, 'rev', found[4]) end
    return {'Seen', seen}
  end
end
if ARGV[7] ~= '' then
  local lease = redis.call('HMGET', head, 'fence', 'holder')
  if not lease[2] or lease[1] ~= ARGV[7] then return {'Fenced'} end
end
if ARGV[6] ~= '' and tonumber(ARGV[6]) ~= tonumber(found[2]) then return {'SeqConflict', found[2]} end

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local at = string.format('%016.0f', math.max(now, tonumber(found[3])))
local revision = string.format('%.0f', math.max(now, found[4] + 1))
local seq = string.format('%.0f', found[2] + #ARGV - 10)
local answer = found[2] .. ' ' .. seq .. ' ' .. at .. ' ' .. revision
for i = 11, #ARGV do
  redis.call('RPUSH', log, at .. ARGV[i])
end
if token ~= '' then redis.call('HSET', head, 't\0' .. token, answer .. '\n' .. ARGV[9]) end
if #ARGV > 10 then
  redis.call('HSET', head, 'seq', seq, 'act', at, 'rev', revision)
  redis.call('ZADD', KEYS[3], at, ARGV[2])
else
  redis.call('HSET', head, 'rev', revision)
end
-- Hints are lossy. One that may not be published must not stop a script in the middle of its writes.
redis.pcall(ARGV[5], ARGV[3], '')
redis.pcall(ARGV[5], ARGV[4], string.sub(ARGV[3], #ARGV[4] + 2))
return answer
