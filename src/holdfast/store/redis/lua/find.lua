-- KEYS  1 tags
-- ARGV  1 name\0value\0 2 the member to begin after, or '' 3 limit 4 what a head's key begins with
local found, limit = {}, tonumber(ARGV[3])
local low = ARGV[2] ~= '' and '(' .. ARGV[2] or '[' .. ARGV[1]
while limit > 0 do
  local members = redis.call('ZRANGEBYLEX', KEYS[1], low, '(' .. ARGV[1] .. '\255', 'LIMIT', 0, limit)
  for _, member in ipairs(members) do
    local id, ref, base = string.match(string.sub(member, #ARGV[1] + 1), '^([^%z]*)%z([^%z]*)%z([^%z]*)$')
    -- What a delete has not removed yet belongs to a conversation that is not there any more.
    if redis.call('HGET', ARGV[4] .. id, 'base') == base then
      found[#found + 1] = {id, ref, member}
      limit = limit - 1
    end
  end
  if #members == 0 then break end
  low = '(' .. members[#members]
end
return found
