-- KEYS lock fence label queue  ARGV token fence ticket window_ms prefix
-- Gives back a lock of which we do not have enough servers, if an earlier ticket waits for it. Only what was granted with
-- this fence: the same call that comes late must not give back a later grant. Replies {1, fence} if we keep it, or
-- as try.lua {0, PTTL, rank, ticket}.
-- include fence.lua
-- include queue.lua
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then
  return {0, redis.call('PTTL', KEYS[1]), -1, 0}
end
local head = first(ARGV[5])
local score = head and tonumber(redis.call('ZSCORE', KEYS[4], head))
local ticket = tonumber(ARGV[3])
if not head or score > ticket or (score == ticket and head > ARGV[1]) then return {1, tonumber(ARGV[2])} end
redis.call('DEL', KEYS[1], KEYS[3])
redis.call('ZADD', KEYS[4], ARGV[3], ARGV[1])
hand_over(ARGV[5], ARGV[4])
return in_queue(redis.call('ZRANK', KEYS[4], ARGV[1]) or -1, ARGV[3])
