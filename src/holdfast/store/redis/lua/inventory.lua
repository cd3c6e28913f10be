-- KEYS  1 head 2 names
-- The collections of a conversation, each found by skipping the records of the one before, and its tags.
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
local collections, start = {}, '[r'
while true do
  local member = redis.call('ZRANGEBYLEX', KEYS[2], start, '(s', 'LIMIT', 0, 1)[1]
  if not member then break end
  local collection = string.match(member, '^r([^%z]*)%z')
  collections[#collections + 1] = collection
  start = '[r' .. collection .. '\1'
end
return {collections, redis.call('ZRANGEBYLEX', KEYS[2], '[t', '(u')}
