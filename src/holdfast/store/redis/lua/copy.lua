-- Make the records of some collections in a hidden copy the same as in its source. With a budget of
-- bytes it may stop before; true if there is nothing left to do.
local function copy_records(source, source_names, head, names, collections, budget)
  for _, collection in ipairs(collections) do
    local low, high = '[r' .. collection .. '\0', '(r' .. collection .. '\0\255'
    local there = {}
    for _, member in ipairs(redis.call('ZRANGEBYLEX', source_names, low, high)) do
      local name = string.sub(member, 2)
      local revision = redis.call('HGET', source, 'r\0' .. name)
      there[member] = true
      if redis.call('HGET', head, 'r\0' .. name) ~= revision then
        if budget and budget < 0 then return false end
        local data = redis.call('HGET', source, 'R\0' .. name)
        if budget then budget = budget - #data - #name end
        redis.call('HSET', head, 'r\0' .. name, revision, 'R\0' .. name, data)
        redis.call('ZADD', names, 0, member)
      end
    end
    for _, member in ipairs(redis.call('ZRANGEBYLEX', names, low, high)) do
      if not there[member] then
        local name = string.sub(member, 2)
        redis.call('HDEL', head, 'r\0' .. name, 'R\0' .. name)
        redis.call('ZREM', names, member)
      end
    end
  end
  return true
end
