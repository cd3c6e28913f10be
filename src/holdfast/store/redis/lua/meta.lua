-- How the store is laid out. Whoever opens it first writes it down.
-- KEYS  1 meta
-- ARGV  1 format 2 shards; none to look only
if #ARGV > 0 then
  redis.call('HSETNX', KEYS[1], 'format', ARGV[1])
  redis.call('HSETNX', KEYS[1], 'shards', ARGV[2])
end
return redis.call('HMGET', KEYS[1], 'format', 'shards')
