-- KEYS lock fence  ARGV token fence
-- Lifts the fence of a lock that is ours to that of its round. Replies 1, 0 (not ours) or -1 (too high).
-- include fence.lua
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local raised, now = tonumber(ARGV[2]), now_us()
if too_high(raised, now) then return -1 end
local fence = tonumber(redis.call('GET', KEYS[2]) or '0')
if raised > fence then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', keep_ms(raised, now, redis.call('PTTL', KEYS[1])))
end
return 1
