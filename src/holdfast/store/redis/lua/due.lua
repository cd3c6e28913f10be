-- KEYS  1 due
-- ARGV  1 now 2 limit 3 what every head's key begins with
local calls, limit, start, now = {}, tonumber(ARGV[2]), 0, whole(clock(ARGV[1]))
while #calls < limit do
  local members = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', start, 200)
  for _, member in ipairs(members) do
    local owner, id, base, call_id = string.match(member, '^([^%z]*)%z([^%z]*)%z([^%z]*)%z([^%z]*)$')
    local head = ARGV[3] .. #owner .. ':' .. owner .. ':' .. id
    local found = redis.call('HMGET', head, 'base', 'c\0' .. call_id, 'C\0' .. call_id)
    if found[1] == base and #calls < limit then
      calls[#calls + 1] = {owner, id, call_id, found[2], found[3]}
    end
  end
  if #members == 0 then break end
  start = start + #members
end
return calls
