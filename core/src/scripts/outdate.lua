-- KEYS lock fence label  ARGV proposal_us
-- The first step of a break: whoever holds the lock has an old fence from now on. Replies {fence, the largest fence that
-- this server would accept from others}.
-- include fence.lua
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then return mistyped(owner, 'NOTALOCK', KEYS[1]) end
-- First, as a server that is out of memory lets only a script write that has deleted something.
redis.call('DEL', KEYS[3])
local fence = next_fence(KEYS[2], ARGV[1], math.max(redis.call('PTTL', KEYS[1]), 0))
if type(fence) == 'table' then return fence end
return {fence, math.min(now_us() + 3600000000, 9007199254740991)}
