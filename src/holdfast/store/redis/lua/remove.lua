-- Remove some of what a hidden conversation left in its owner's indexes, then the conversation.
-- KEYS  1 head 2 log 3 names 4 open of the hidden one 5 hidden 6 tags 7 waiting 8 due
-- ARGV  1 hidden name
local found = redis.call('HMGET', KEYS[1], 'owner', 'id', 'base')
local owner, id, base = found[1], found[2], found[3]
if owner then
  local tags = redis.call('ZRANGEBYLEX', KEYS[3], '[t', '(u', 'LIMIT', 0, 500)
  for _, member in ipairs(tags) do
    local name, ref = string.match(member, '^t(.*%z)([^%z]*)$')
    redis.call('ZREM', KEYS[6], name .. id .. '\0' .. ref .. '\0' .. base)
    redis.call('ZREM', KEYS[3], member)
  end
  local calls = redis.call('ZRANGE', KEYS[4], 0, 499, 'WITHSCORES')
  for i = 1, #calls, 2 do
    local ordinal = string.format('%010d', tonumber(calls[i + 1]))
    redis.call('ZREM', KEYS[7], table.concat({id, base, ordinal, calls[i]}, '\0'))
    redis.call('ZREM', KEYS[8], table.concat({owner, id, base, calls[i]}, '\0'))
    redis.call('ZREM', KEYS[4], calls[i])
  end
  if #tags > 0 or #calls > 0 then return 1 end
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
redis.call('ZREM', KEYS[5], ARGV[1])
return 0
