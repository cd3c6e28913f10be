-- KEYS  1 head 2 names
-- ARGV  1 command (ZRANGEBYLEX, ZREVRANGEBYLEX) 2 start 3 stop 4 limit; or 1 '' 2… names
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
local names = {}
if ARGV[1] ~= '' then
  for _, member in ipairs(redis.call(ARGV[1], KEYS[2], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])) do
    names[#names + 1] = string.sub(member, 2)
  end
else
  names = {unpack(ARGV, 2)}
end
local records, size = {}, 0
for _, name in ipairs(names) do
  local record = redis.call('HMGET', KEYS[1], 'r\0' .. name, 'R\0' .. name)
  records[#records + 1] = {name, record[1], record[2]}
  size = size + #(record[2] or '')
  if size > 4000000 then break end
end
return {records, #names}
