-- KEYS  1 head 2 work
-- ARGV  1 now 2 holder 3 ttl 4 owner\0id 5 lease or claim 6 the agent, of a claim
local head = KEYS[1]
local now = clock(ARGV[1])
local found = redis.call('HMGET', head, 'base', 'holder', 'until', 'fence', 'wake', 'agent')
local base, holder, ends, fence, wake = found[1], found[2], tonumber(found[3] or '0'), found[4], found[5]
if not base then return {'NotFound'} end
local ran_out = holder and ends <= now
if ARGV[5] == 'claim' then
  if not wake or math.max(tonumber(wake), ends) > now or ARGV[6] ~= (found[6] or '') then return {} end
elseif holder and holder ~= ARGV[2] and not ran_out then
  return {}
end
-- Greater than any before it, also where a server that failed had given some that are lost.
fence = whole(math.max(now, tonumber(base) + 1, tonumber(fence or '0') + 1))
local upto = later(now, ARGV[3])
redis.call('HSET', head, 'holder', ARGV[2], 'until', upto, 'fence', fence)
if ran_out then redis.call('HINCRBY', head, 'takeovers', 1) end
if wake then queue(head, KEYS[2], ARGV[4]) end
return {fence, upto}
