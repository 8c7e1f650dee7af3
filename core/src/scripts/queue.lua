-- The queue of a lock, for scripts whose KEYS are lock fence label queue. A member is an owner token, its score the
-- ticket. A waiter listens on the channel of its client, which is named in its token.
local function channel(prefix, token) return prefix .. 'wake:' .. string.sub(token, 1, 32) end

-- Whether somebody listens. PUBLISH would count those who subscribed to a pattern, too; it is asked where this is refused.
local function listens(name)
  local count = redis.pcall('PUBSUB', 'NUMSUB', name)
  return count.err or count[2] > 0
end

-- The first waiter that is alive, or `me`; the dead before it are dropped.
local function first(prefix, me)
  while true do
    local head = redis.pcall('ZRANGE', KEYS[4], 0, 0)
    head = not head.err and head[1]
    if not head or head == me or listens(channel(prefix, head)) then return head end
    redis.call('ZREM', KEYS[4], head)
  end
end

-- Tells the first waiter (`head`, if it is known) when to look at the lock again. PUBLISH says whether anybody
-- listens; where a subscriber to a pattern hides that the waiter is dead, the next hand-over finds out.
local function tell_first(prefix, in_ms, head)
  head = head or redis.call('ZRANGE', KEYS[4], 0, 0)[1]
  while head do
    local look = 'look ' .. head .. ' ' .. string.format('%.0f', in_ms) .. ' ' .. KEYS[1]
    if redis.pcall('PUBLISH', channel(prefix, head), look) ~= 0 then return end
    redis.call('ZREM', KEYS[4], head)
    head = redis.call('ZRANGE', KEYS[4], 0, 0)[1]
  end
end

-- Gives the lock, which is free, to the first waiter that is alive, for as long as it may take to claim it. Where that
-- fails (out of memory, no right to publish) the waiter finds out when it looks.
local function hand_over(prefix, window_ms)
  while true do
    local waiting = redis.pcall('ZRANGE', KEYS[4], 0, 1)
    local head = not waiting.err and waiting[1]
    if not head then return end
    local name = channel(prefix, head)
    local told = 0
    if listens(name) then
      local fence = next_fence(KEYS[2], 0, window_ms)
      if type(fence) ~= 'number' then return end
      if redis.pcall('SET', KEYS[1], head, 'PX', window_ms).err then return end
      told = redis.pcall('PUBLISH', name, 'granted ' .. head .. ' ' .. string.format('%.0f', fence) .. ' ' .. KEYS[1])
      if told ~= 0 and type(told) ~= 'number' then
        redis.call('DEL', KEYS[1])
        return
      end
    end
    redis.call('ZREM', KEYS[4], head)
    if told ~= 0 then
      if waiting[2] then tell_first(prefix, window_ms, waiting[2]) end
      return
    end
    redis.call('DEL', KEYS[1])
  end
end

-- The reply to a waiter. Every waiter looks, and so prolongs the queue, soon after the lock's known end; without a
-- known end every 10 s.
local function in_queue(rank, ticket)
  local left = redis.call('PTTL', KEYS[1])
  local keep = (left < 0 and 10000 or left) + 5000
  if redis.call('PTTL', KEYS[4]) < keep then redis.call('PEXPIRE', KEYS[4], string.format('%.0f', keep)) end
  return {0, left, rank, tonumber(ticket)}
end

