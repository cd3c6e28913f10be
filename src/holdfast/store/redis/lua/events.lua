-- KEYS  1 head 2 log
-- ARGV  1 after 2 before, or '' 3 limit, or '' 4 base that it must have, or ''
local found = redis.call('HMGET', KEYS[1], 'base', 'seq', 'cuts')
if not found[1] or (ARGV[4] ~= '' and ARGV[4] ~= found[1]) then return {} end
local first, last = math.max(tonumber(ARGV[1]), 0) + 1, tonumber(found[2])
if ARGV[2] ~= '' then last = math.min(last, tonumber(ARGV[2]) - 1) end
if ARGV[3] ~= '' then first = math.max(first, last - tonumber(ARGV[3]) + 1) end
return {found[1], whole(first), whole(last), page(KEYS[2], first, last), found[2], found[3] or '0'}
