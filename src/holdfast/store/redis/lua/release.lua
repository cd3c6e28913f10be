-- KEYS  1 head 2 work
-- ARGV  1 now 2 fence 3 defer, or '' 4 owner\0id 5 channel 6 shard's channel 7 publish
local found = redis.call('HMGET', KEYS[1], 'holder', 'fence')
if not found[1] or found[2] ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], 'holder', 'until')
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'wake', later(clock(ARGV[1]), ARGV[3])) end
queue(KEYS[1], KEYS[2], ARGV[4])
tell(ARGV[7], ARGV[5], ARGV[6])
return 1
