-- KEYS lock fence label  ARGV token ttl_ms fence label
-- Makes a lock that was handed to us ours for the whole TTL, with this fence. Replies {1}, {2, fence} (ours, but the
-- fence is larger: not counted), {3} (ours, but this fence is too high), {0} (free) or {-1} (others hold it).
-- include fence.lua
local owner = redis.call('GET', KEYS[1])
if not owner then return {0} end
if owner ~= ARGV[1] then return {-1} end
local claimed = tonumber(ARGV[3])
local fence = tonumber(redis.call('GET', KEYS[2]) or '0')
if fence > claimed then return {2, fence} end
if fence < claimed then
  local now = now_us()
  if too_high(claimed, now) then return {3} end
  redis.call('SET', KEYS[2], ARGV[3], 'PX', keep_ms(claimed, now, ARGV[2]))
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
-- The label of the holder before is gone since its release.
if ARGV[4] ~= '' then redis.pcall('SET', KEYS[3], ARGV[4], 'PX', ARGV[2]) end
return {1}
