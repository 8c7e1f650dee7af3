-- KEYS lock fence label  ARGV token ttl_ms fence label
-- Makes a lock that was handed to us ours for the whole TTL, with this fence. Replies {1}, {2, fence} (ours, but the
-- fence is larger: not counted), {3} (ours, but this fence is too high: a broken clock of one server must not
-- poison the others), {0} (free) or {-1} (others hold it).
local owner = redis.call('GET', KEYS[1])
if not owner then return {0} end
if owner ~= ARGV[1] then return {-1} end
local claimed = tonumber(ARGV[3])
local fence = tonumber(redis.call('GET', KEYS[2]) or '0')
if fence > claimed then return {2, fence} end
if fence < claimed then
  local t = redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  if claimed > now + 3600000000 or claimed >= 9007199254740992 then return {3} end
  local keep = math.max(tonumber(ARGV[2]), (claimed - now) / 1000) + 86400000 -- as in fence.lua
  redis.call('SET', KEYS[2], ARGV[3], 'PX', string.format('%.0f', keep))
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
-- The label of the holder before is gone since its release.
if ARGV[4] ~= '' then redis.pcall('SET', KEYS[3], ARGV[4], 'PX', ARGV[2]) end
return {1}
