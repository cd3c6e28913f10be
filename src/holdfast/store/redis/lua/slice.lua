-- Copy some of a fork's events, with their ids, and then some of its records.
-- KEYS  1 head 2 log 3 names of the source 4 head 5 log 6 names of the copy 7 hidden
-- ARGV  1 now 2 base of the source 3 first 4 last 5 hidden name 6 how long it may stay hidden
--       7 budget in bytes 8… collections
if redis.call('HGET', KEYS[1], 'base') ~= ARGV[2] then return {'NotFound'} end
-- A copy that took too long was removed as what a crash had left.
if redis.call('EXISTS', KEYS[4]) == 0 then return {'Again'} end
redis.call('ZADD', KEYS[7], later(clock(ARGV[1]), ARGV[6]), ARGV[5])
local first, last = tonumber(ARGV[3]), tonumber(ARGV[4])
if first > last then
  local done = copy_records(KEYS[1], KEYS[3], KEYS[4], KEYS[6], {unpack(ARGV, 8)}, tonumber(ARGV[7]))
  return {whole(first), done and 1 or 0}
end
local events, ids = page(KEYS[2], first, last), {}
for i, event in ipairs(events) do
  local id = string.match(event, '^[^%z]*%z([^%z]+)%z', 17)
  if id then
    ids[#ids + 1] = 'i\0' .. id
    ids[#ids + 1] = whole(first + i - 1)
  end
end
in_parts(events, function(...) redis.call('RPUSH', KEYS[5], ...) end)
in_parts(ids, function(...) redis.call('HSET', KEYS[4], ...) end)
return {whole(first + #events), 0}
