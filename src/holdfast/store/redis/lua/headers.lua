-- KEYS  1 active or born
-- ARGV  1 time 2 id of the last one of the page before, or '' 3 limit 4 what a head's key begins with 5… fields
local ids, limit = {}, tonumber(ARGV[3])
if ARGV[1] ~= '' then
  for _, id in ipairs(redis.call('ZREVRANGEBYSCORE', KEYS[1], ARGV[1], ARGV[1])) do
    if id < ARGV[2] and #ids < limit then ids[#ids + 1] = id end
  end
end
local below = ARGV[1] ~= '' and '(' .. ARGV[1] or '+inf'
if #ids < limit then
  for _, id in ipairs(redis.call('ZREVRANGEBYSCORE', KEYS[1], below, '-inf', 'LIMIT', 0, limit - #ids)) do
    ids[#ids + 1] = id
  end
end
local headers = {}
for i, id in ipairs(ids) do
  headers[i] = {id, redis.call('HMGET', ARGV[4] .. id, unpack(ARGV, 5))}
end
return headers
