-- KEYS lock label  ARGV token
-- Frees the lock only if it is ours. Replies 1, or 0.
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1], KEYS[2]) > 0 and 1 or 0
