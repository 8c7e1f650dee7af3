-- KEYS fence  ARGV fence
-- Lifts the fence of a lock that was broken. Replies 1, or -1 (too high: a broken clock of one server must not poison
-- the others).
local lifted = tonumber(ARGV[1])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if lifted > now + 3600000000 or lifted >= 9007199254740992 then return -1 end
if lifted > tonumber(redis.call('GET', KEYS[1]) or '0') then
  local keep = math.max(0, (lifted - now) / 1000) + 86400000 -- as in fence.lua
  redis.call('SET', KEYS[1], ARGV[1], 'PX', string.format('%.0f', keep))
end
return 1
