-- KEYS  1 waiting
-- ARGV  1 statuses between spaces 2 limit 3 what a head's key begins with
local calls, limit, start = {}, tonumber(ARGV[2]), 0
while #calls < limit do
  local members = redis.call('ZRANGE', KEYS[1], start, start + 199)
  for _, member in ipairs(members) do
    local id, base, call_id = string.match(member, '^([^%z]*)%z([^%z]*)%z[^%z]*%z([^%z]*)$')
    local found = redis.call('HMGET', ARGV[3] .. id, 'base', 'c\0' .. call_id, 'C\0' .. call_id)
    if found[1] == base and #calls < limit
        and string.find(ARGV[1], ' ' .. call_of(found[2]).status .. ' ', 1, true) then
      calls[#calls + 1] = {id, call_id, found[2], found[3]}
    end
  end
  if #members == 0 then break end
  start = start + #members
end
return calls
