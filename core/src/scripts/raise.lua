-- KEYS lock fence  ARGV token fence
-- Lifts the fence of a lock that is ours to that of its round. Replies 1, 0 (not ours) or -1 (too high: a broken
-- clock of one server must not poison the others).
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local raised = tonumber(ARGV[2])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if raised > now + 3600000000 or raised >= 9007199254740992 then return -1 end
local fence = tonumber(redis.call('GET', KEYS[2]) or '0')
if raised > fence then
  local keep = math.max(redis.call('PTTL', KEYS[1]), (raised - now) / 1000) + 86400000
  redis.call('SET', KEYS[2], ARGV[2], 'PX', string.format('%.0f', keep))
end
return 1
