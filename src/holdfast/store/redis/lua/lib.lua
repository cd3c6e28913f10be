-- What several scripts share; it is put in front of each of them. Numbers are doubles here: seqs,
-- revisions, fences and today's times are below 2^53 and exact, and are written with '%.0f'.

local function clock(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function whole(number)
  return string.format('%.0f', number)
end

-- A time that many microseconds (as digits) after now, also where it lies beyond 2^53.
local function later(now, duration)
  if now + tonumber(duration) < 9007199254740992 then return whole(now + tonumber(duration)) end
  local high = math.floor(now / 1000000000)
  local low = now - high * 1000000000 + tonumber(string.sub(duration, -9))
  high = high + tonumber(string.sub(duration, 1, -10))
  if low >= 1000000000 then high, low = high + 1, low - 1000000000 end
  return string.format('%.0f%09.0f', high, low)
end

-- Call with all of a list, in parts: unpack has a limit.
local function in_parts(list, call)
  for first = 1, #list, 1000 do
    call(unpack(list, first, math.min(first + 999, #list)))
  end
end

-- Hints are lossy. One that may not be published must not stop a script in the middle of its writes.
local function tell(publish, channel, shard_channel)
  redis.pcall(publish, channel, '')
  redis.pcall(publish, shard_channel, string.sub(channel, #shard_channel + 2))
end

-- Put a conversation to its place among those that have work, or take it out.
local function queue(head, work, member)
  local marks = redis.call('HMGET', head, 'wake', 'until')
  if marks[1] then
    redis.call('ZADD', work, whole(math.max(tonumber(marks[1]), tonumber(marks[2] or '0'))), member)
  else
    redis.call('ZREM', work, member)
  end
end

-- A call is kept as one line: status executor step opened_at expires_at(-) ordinal name.
local function call_of(line)
  if not line then return nil end
  local status, executor, step, opened, expires, ordinal, name =
    string.match(line, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (.*)$')
  return {status = status, executor = executor, step = step, opened = opened, expires = expires,
    ordinal = ordinal, name = name}
end

local function line_of(call)
  return table.concat({call.status, call.executor, call.step, call.opened, call.expires, call.ordinal,
    call.name}, ' ')
end

local function keeps_awake(call)
  return call.status == 'detached' or (call.status == 'executing' and call.executor == 'server')
end
