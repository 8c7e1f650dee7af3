-- KEYS lock fence label  ARGV token ttl_ms fence restore label
-- Prolongs a lock that is ours while nobody has taken a larger fence; never shortens it. Replies {1},
-- {2, fence} (ours, but the fence differs: not counted), {0} (free) or {-1} (others hold it).
-- restore = 1 (a single server): a fence that has gone is put back instead of not being counted.
-- include fence.lua
local owner = redis.call('GET', KEYS[1])
if not owner then return {0} end
if owner ~= ARGV[1] then return {-1} end
local fence = redis.call('GET', KEYS[2])
if not fence and ARGV[4] == '1' then
  redis.call('SET', KEYS[2], ARGV[3], 'PX', keep_ms(ARGV[3], now_us(), ARGV[2]))
elseif fence ~= ARGV[3] then
  return {2, tonumber(fence or '0')}
elseif redis.call('PTTL', KEYS[2]) < 43200000 + tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[2], keep_ms(ARGV[3], now_us(), ARGV[2]))
end
local ttl = tonumber(ARGV[2])
if redis.call('PTTL', KEYS[1]) < ttl then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if ARGV[5] ~= '' then redis.pcall('SET', KEYS[3], ARGV[5], 'PX', ARGV[2]) end
return {1}
