-- KEYS client
-- Replies a client's registration, or nil.
return {redis.call('GET', KEYS[1])}
