-- KEYS  1 head 2 names 3 open
-- ARGV  1 which (open, all, some) 2 the ordinal to begin after, or the first call_id 3… more call_ids
local ids = {}
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
if ARGV[1] == 'open' then
  ids = redis.call('ZRANGE', KEYS[3], 0, -1)
elseif ARGV[1] == 'all' then
  local low = string.format('[c%010d', tonumber(ARGV[2]) + 1)
  for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], low, '(d', 'LIMIT', 0, 500)) do
    ids[#ids + 1] = string.sub(member, 12)
  end
else
  ids = {unpack(ARGV, 2)}
end
local calls = {}
for _, call_id in ipairs(ids) do
  local call = redis.call('HMGET', KEYS[1], 'c\0' .. call_id, 'C\0' .. call_id)
  if call[1] then calls[#calls + 1] = {call_id, call[1], call[2]} end
end
return {calls}
