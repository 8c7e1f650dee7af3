-- KEYS lock fence label queue  ARGV proposal_us window_ms prefix
-- Takes the lock from whoever holds it, with a fence above all that were given out, and hands it to the first waiter.
-- Replies {fence}.
-- include fence.lua
-- include queue.lua
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then return mistyped(owner, 'NOTALOCK', KEYS[1]) end
-- First, as a server that is out of memory lets only a script write that has deleted something.
redis.call('DEL', KEYS[3])
local fence = next_fence(KEYS[2], ARGV[1], 0)
if type(fence) == 'table' then return fence end
redis.call('DEL', KEYS[1])
hand_over(ARGV[3], ARGV[2])
return {fence}
