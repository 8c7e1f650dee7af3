-- KEYS lock fence label  ARGV token ttl_ms fence label
-- Puts a lock that a confirmed extension still holds back on a server that lost it. Replies 1, or 0 if the server
-- has a lock or a larger fence. Never counted as a vote.
-- include fence.lua
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if tonumber(redis.call('GET', KEYS[2]) or '0') > tonumber(ARGV[3]) then return 0 end
redis.call('SET', KEYS[2], ARGV[3], 'PX', keep_ms(ARGV[3], now_us(), ARGV[2]))
if ARGV[4] ~= '' then redis.call('SET', KEYS[3], ARGV[4], 'PX', ARGV[2]) end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
