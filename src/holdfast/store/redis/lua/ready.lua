-- Conversations that have work and no living lease: who could be claimed, not who was.
-- KEYS  1 work
-- ARGV  1 now 2 limit 3 where to begin 4 what every head's key begins with 5 all or some 6… agents
local now, limit, start = whole(clock(ARGV[1])), tonumber(ARGV[2]), tonumber(ARGV[3])
local members = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', start, 500)
local wanted, ready = {}, {}
for i = 6, #ARGV do wanted[ARGV[i]] = true end
for i = 1, #members, 2 do
  local owner, id = string.match(members[i], '^([^%z]*)%z([^%z]*)$')
  local found = redis.call('HMGET', ARGV[4] .. #owner .. ':' .. owner .. ':' .. id, 'base', 'agent')
  if found[1] and (ARGV[5] == 'all' or wanted[found[2] or '']) then
    ready[#ready + 1] = {members[i + 1], found[1], owner, id, found[2] or ''}
    if #ready == limit then return {ready, 0} end
  end
end
return {ready, #members / 2 < 500 and 0 or start + 500}
