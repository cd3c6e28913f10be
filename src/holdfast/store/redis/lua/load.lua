-- KEYS  1 head 2 log 3 open
-- ARGV  1 how many fields 2… the fields of the header, then the names of records
local fields = tonumber(ARGV[1])
local header = redis.call('HMGET', KEYS[1], unpack(ARGV, 2, 1 + fields))
local found = redis.call('HMGET', KEYS[1], 'base', 'seq', 'tail')
if not found[1] then return {} end
local calls, records = {}, {}
for _, call_id in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
  local call = redis.call('HMGET', KEYS[1], 'c\0' .. call_id, 'C\0' .. call_id)
  calls[#calls + 1] = {call_id, call[1], call[2]}
end
for i = 2 + fields, #ARGV do
  records[#records + 1] = redis.call('HMGET', KEYS[1], 'r\0' .. ARGV[i], 'R\0' .. ARGV[i])
end
local first, last = tonumber(found[3] or '1'), tonumber(found[2])
return {header, calls, records, found[1], page(KEYS[2], first, last)}
