-- KEYS lock fence label queue  ARGV fence window_ms prefix
-- The second step of a break: takes the lock from whoever has it, lifts the fence to this one, and hands the lock to the
-- first waiter, who gets a larger one. What was granted above this fence is later than the break, and stays. Replies 1, or
-- -1 (too high: a broken clock of one server must not poison the others).
-- include fence.lua
-- include queue.lua
local fence, broken = tonumber(redis.call('GET', KEYS[2]) or '0'), tonumber(ARGV[1])
if fence > broken then return 1 end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if fence < broken and (broken > now + 3600000000 or broken >= 9007199254740992) then return -1 end
-- First, as in outdate.lua.
redis.call('DEL', KEYS[1], KEYS[3])
if fence < broken then
  local keep = math.max(0, (broken - now) / 1000) + 86400000 -- as in fence.lua
  redis.call('SET', KEYS[2], ARGV[1], 'PX', string.format('%.0f', keep))
end
hand_over(ARGV[3], ARGV[2])
return 1
