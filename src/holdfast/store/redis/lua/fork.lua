-- Begin a fork: the hidden copy that the events go to.
-- KEYS  1 head of the source 2 head of the new one 3 head of the copy 4 hidden
-- ARGV  1 now 2 at, or '' 3 id of the source 4 hidden name 5 how long it may stay hidden
local found = redis.call('HMGET', KEYS[1], 'base', 'seq', 'cuts', 'title', 'agent', 'metadata', 'settings')
if not found[1] then return {'NotFound'} end
local at, last = tonumber(ARGV[2] ~= '' and ARGV[2] or found[2]), tonumber(found[2])
if at < 0 or at > last then return {'NoPlace', found[2]} end
if redis.call('EXISTS', KEYS[2]) == 1 then return {'AlreadyExists'} end
redis.call('ZADD', KEYS[4], later(clock(ARGV[1]), ARGV[5]), ARGV[4])
redis.call('HSET', KEYS[3], 'base', '0', 'seq', whole(at), 'from', ARGV[3], 'at', whole(at))
for i, field in ipairs({'title', 'agent', 'metadata', 'settings'}) do
  if found[3 + i] then redis.call('HSET', KEYS[3], field, found[3 + i]) end
end
return {found[1], whole(at), found[3] or '0'}
