-- KEYS lock fence label queue
-- Reads only. Replies {ms left, client, fingerprint, fence, label, waiters}, with -1 for no TTL, -2 for a free lock and
-- nil for what there is not. The token stays here: a client's own names it, and equal ones have equal fingerprints.
-- include fence.lua
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then return mistyped(owner, 'NOTALOCK', KEYS[1]) end
local fence = redis.pcall('GET', KEYS[2])
if type(fence) == 'table' then return mistyped(fence, 'NOTAFENCE', KEYS[2]) end
if fence and not tonumber(fence) then return redis.error_reply('NOTAFENCE string ' .. KEYS[2]) end
local waiters = redis.pcall('ZCARD', KEYS[4])
if type(waiters) == 'table' then return mistyped(waiters, 'NOTAQUEUE', KEYS[4]) end
local label = owner and redis.pcall('GET', KEYS[3])
local client = owner and #owner == 73 and string.match(owner, '^(' .. string.rep('%x', 32) .. ')%.%x+$')
return {
  redis.call('PTTL', KEYS[1]), client or false, owner and redis.sha1hex(owner), fence and tonumber(fence),
  type(label) == 'string' and label, waiters,
}
