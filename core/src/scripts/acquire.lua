-- KEYS lock fence label  ARGV token ttl_ms proposal_us label
-- One server's part of a quorum: takes the lock if it is absent, with a fence above every earlier one. Replies
-- {1, fence} or {0, PTTL of the holder}.
-- include fence.lua
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then return mistyped(owner, 'NOTALOCK', KEYS[1]) end
if owner and owner ~= ARGV[1] then return {0, redis.call('PTTL', KEYS[1])} end
local last = owner and redis.pcall('GET', KEYS[2])
if type(last) == 'string' then -- ours already: the same call, sent again on a new connection
  redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ARGV[2]))
  return {1, tonumber(last)}
end
local fence = next_fence(KEYS[2], ARGV[3], ARGV[2])
if type(fence) == 'table' then return fence end
if ARGV[4] ~= '' then redis.call('SET', KEYS[3], ARGV[4], 'PX', ARGV[2]) else redis.call('DEL', KEYS[3]) end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, fence}
