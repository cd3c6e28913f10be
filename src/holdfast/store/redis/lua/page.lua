-- Events from one seq to another, as many as a reader should be given at once, and at least one.
local function page(log, first, last)
  local events, size, some = {}, 0, 8
  while first <= last and size < 4000000 and #events < 1000 do
    local upto = math.min(first + some - 1, last)
    for _, event in ipairs(redis.call('LRANGE', log, whole(first - 1), whole(upto - 1))) do
      events[#events + 1] = event
      size = size + #event
    end
    first, some = upto + 1, math.min(some * 2, 128)
  end
  return events
end
