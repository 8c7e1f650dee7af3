-- KEYS lock fence label queue  ARGV token ttl_ms proposal_us label enqueue ticket window_ms prefix inquire
-- Takes the lock if it is free and nobody who is alive waits for it longer; else, with enqueue = 1, stands in the
-- queue: at the ticket, or with 0 behind all others. Replies {1, fence}, or {0, PTTL of the holder, rank, ticket}
-- (rank -1: not in the queue). With inquire = 1 the holder is told when an earlier ticket than all others comes.
-- include fence.lua
-- include queue.lua
local token, ttl, prefix = ARGV[1], ARGV[2], ARGV[8]

local function label()
  if ARGV[4] ~= '' then redis.pcall('SET', KEYS[3], ARGV[4], 'PX', ttl) else redis.call('DEL', KEYS[3]) end
end

local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then return mistyped(owner, 'NOTALOCK', KEYS[1]) end
if owner == token then -- ours already: handed over, or the same call sent again on a new connection
  local fence = tonumber(redis.call('GET', KEYS[2]) or '') or next_fence(KEYS[2], ARGV[3], ttl)
  if type(fence) == 'table' then return fence end
  label()
  redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ttl))
  redis.pcall('ZREM', KEYS[4], token)
  return {1, fence}
end
local ahead = not owner and first(prefix, token)
if not owner and (not ahead or ahead == token) then
  local fence = next_fence(KEYS[2], ARGV[3], ttl)
  if type(fence) == 'table' then return fence end
  label()
  if ahead then redis.call('ZREM', KEYS[4], token) end
  redis.call('SET', KEYS[1], token, 'PX', ttl)
  if ahead then tell_first(prefix, ttl) end
  return {1, fence}
end
if ARGV[5] ~= '1' then
  if ahead then hand_over(prefix, ARGV[7]) end
  return {0, redis.call('PTTL', KEYS[1]), -1, 0}
end
local ticket = redis.pcall('ZSCORE', KEYS[4], token)
if type(ticket) == 'table' then return mistyped(ticket, 'NOTAQUEUE', KEYS[4]) end
if not ticket then
  ticket = tonumber(ARGV[6])
  if ticket == 0 then
    local last = redis.call('ZRANGE', KEYS[4], -1, -1, 'WITHSCORES')[2]
    ticket = math.max(now_us(), tonumber(last or '0') + 1)
  end
  ticket = string.format('%.0f', ticket)
  redis.call('ZADD', KEYS[4], ticket, token)
end
if ahead then hand_over(prefix, ARGV[7]) end
local rank = redis.call('ZRANK', KEYS[4], token) or -1
if rank == 0 and ARGV[9] == '1' and owner then
  redis.pcall('PUBLISH', channel(prefix, owner), 'inquire ' .. owner .. ' ' .. ticket .. ' ' .. KEYS[1])
end
return in_queue(rank, ticket)
