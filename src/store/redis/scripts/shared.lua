-- A burst of commands about locks of several keys, and about locks that turns hold together in an owner's name. Answered and
-- repeatable as those of the other script.
--
-- KEYS: 1 the fence counter; then per command its locks and, with an owner, as many sets of holds.
-- ARGV: 1 floor, 2 prefix of the "wanted" marks; then per command: letter, token, owner ('' without one), number of locks,
-- and for t p r k: ttl block; for s: new ttl; for g: nothing.
--
-- Without an owner the value of a lock is the token. With one it is "hf1.o." and the owner; a sorted set beside it has the tokens
-- that hold it, each with the instant in milliseconds at which it is over, so that a command sent twice counts once and a holder
-- that crashed stops counting.

local call = redis.call
