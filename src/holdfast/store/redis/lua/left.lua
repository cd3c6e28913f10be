-- Hidden conversations that nobody works on any more.
-- KEYS  1 hidden
-- ARGV  1 now
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', whole(clock(ARGV[1])))
