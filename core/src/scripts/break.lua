-- KEYS lock fence label queue  ARGV fence window_ms prefix
-- The second step of a break: takes the lock from whoever has it, lifts the fence to this one, and hands the lock to the
-- first waiter, who gets a larger one. What was granted above this fence is later than the break, and stays. Replies 1, or
-- -1 (too high).
-- include fence.lua
-- include queue.lua
local fence, broken = tonumber(redis.call('GET', KEYS[2]) or '0'), tonumber(ARGV[1])
if fence > broken then return 1 end
local now = now_us()
if fence < broken and too_high(broken, now) then return -1 end
-- First, as in outdate.lua.
redis.call('DEL', KEYS[1], KEYS[3])
if fence < broken then redis.call('SET', KEYS[2], ARGV[1], 'PX', keep_ms(broken, now, 0)) end
hand_over(ARGV[3], ARGV[2])
return 1
