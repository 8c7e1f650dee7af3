-- KEYS lock fence  ARGV token fence
-- Reads only: 1 if the lock is ours and nobody has taken a larger fence, else 0.
if redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('GET', KEYS[2]) == ARGV[2] then return 1 end
return 0
