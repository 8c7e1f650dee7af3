-- An error of a key that has another type than ours, or the error as it came.
local function mistyped(reply, code, key)
  if string.find(reply.err, 'WRONGTYPE', 1, true) then
    return redis.error_reply(code .. ' ' .. redis.call('TYPE', key).ok .. ' ' .. key)
  end
  return reply
end

-- How long a fence is kept: until 24 h after the later of the lock's end and the moment that the fence reads as.
local function keep_ms(fence, now, ttl)
  return string.format('%.0f', math.max(tonumber(ttl), (fence - now) / 1000) + 86400000)
end

local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- Whether a fence of other servers is not to be taken over: a broken clock of one must not poison the others.
local function too_high(fence, now) return fence > now + 3600000000 or fence >= 9007199254740992 end

-- Stores and gives a fence above every earlier one: the proposal, or this server's clock where they differ by more
-- than 500 ms. An error as a table. Written before the lock: a script that fails leaves no lock behind.
local function next_fence(key, proposal, ttl)
  local last = redis.pcall('GET', key)
  if type(last) == 'table' then return mistyped(last, 'NOTAFENCE', key) end
  local now = now_us()
  local fence = tonumber(proposal)
  if math.abs(fence - now) > 500000 then fence = now end
  if last then
    local n = tonumber(last)
    if not n then return redis.error_reply('NOTAFENCE string ' .. key) end
    if n >= fence then fence = n + 1 end
  end
  if fence > 9007199254740991 then return redis.error_reply('FENCEEXHAUSTED ' .. key) end
  local stored = redis.pcall('SET', key, string.format('%.0f', fence), 'PX', keep_ms(fence, now, ttl))
  if stored.err then return stored end
  return fence
end

