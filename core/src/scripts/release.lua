-- KEYS lock fence label queue  ARGV token window_ms prefix
-- Frees the lock if it is ours, and hands it to the first waiter; else leaves the queue. Replies 1 if it was ours, or 0.
-- include fence.lua
-- include queue.lua
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1], KEYS[3])
  hand_over(ARGV[3], ARGV[2])
  return 1
end
local rank = redis.pcall('ZRANK', KEYS[4], ARGV[1])
if type(rank) == 'number' then
  redis.call('ZREM', KEYS[4], ARGV[1])
  if rank == 0 then tell_first(ARGV[3], math.max(redis.call('PTTL', KEYS[1]), 0)) end
end
return 0
