-- KEYS  1 head 2 work
-- ARGV  1 now 2 fence 3 ttl 4 owner\0id
local now = clock(ARGV[1])
local found = redis.call('HMGET', KEYS[1], 'holder', 'until', 'fence', 'wake')
if not found[1] or found[3] ~= ARGV[2] or tonumber(found[2]) <= now then return {} end
local upto = later(now, ARGV[3])
redis.call('HSET', KEYS[1], 'until', upto)
if found[4] then queue(KEYS[1], KEYS[2], ARGV[4]) end
return {found[1], upto}
