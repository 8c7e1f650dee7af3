#!lua name=store
-- The store behind the lock: it refuses fences smaller than the largest it has seen, and writes a journal.
-- act BODY FENCE enters a body; act BODY FENCE VALUE writes. Replies the value, or -1 if it refuses.
redis.register_function('act', function(_, args)
  local body, fence, value = args[1], args[2], args[3]
  local accepted = tonumber(fence) >= tonumber(redis.call('GET', 'fence') or '0')
  local verdict = accepted and 'accepted' or 'refused'
  redis.call('RPUSH', 'journal', table.concat({body, fence, value or 'enter', verdict}, ' '))
  if not accepted then return -1 end
  redis.call('SET', 'fence', fence)
  if value then redis.call('SET', 'value', value) end
  return tonumber(redis.call('GET', 'value') or '0')
end)
