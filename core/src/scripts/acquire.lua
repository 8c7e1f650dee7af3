-- KEYS lock fence label  ARGV token ttl_ms proposal_us label
-- Takes the lock if it is absent, with a fence above every earlier one. Replies {1, fence} or {0, PTTL of the holder}.
-- The fence is written before the lock: a script that fails leaves no lock behind.
local owner = redis.pcall('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
  if type(owner) == 'table' then
    if string.find(owner.err, 'WRONGTYPE', 1, true) then
      return redis.error_reply('NOTALOCK ' .. redis.call('TYPE', KEYS[1]).ok .. ' ' .. KEYS[1])
    end
    return owner
  end
  return {0, redis.call('PTTL', KEYS[1])}
end
local last = redis.pcall('GET', KEYS[2])
if type(last) == 'table' then
  if string.find(last.err, 'WRONGTYPE', 1, true) then
    return redis.error_reply('NOTAFENCE ' .. redis.call('TYPE', KEYS[2]).ok .. ' ' .. KEYS[2])
  end
  return last
end
if owner and last then -- ours already: the same call, sent again on a new connection
  redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ARGV[2]))
  return {1, tonumber(last)}
end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local fence = tonumber(ARGV[3])
if math.abs(fence - now) > 500000 then fence = now end
if last then
  local n = tonumber(last)
  if not n then return redis.error_reply('NOTAFENCE string ' .. KEYS[2]) end
  if n >= fence then fence = n + 1 end
end
if fence > 9007199254740991 then return redis.error_reply('FENCEEXHAUSTED ' .. KEYS[2]) end
-- Kept until 24 h after the later of the lock's end and the moment that the fence reads as.
local keep = math.max(tonumber(ARGV[2]), (fence - now) / 1000) + 86400000
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', string.format('%.0f', keep))
if ARGV[4] ~= '' then redis.call('SET', KEYS[3], ARGV[4], 'PX', ARGV[2]) else redis.call('DEL', KEYS[3]) end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, fence}
