-- A burst of commands about locks of several keys, and about locks that turns hold together in an owner's name. Answered and
-- repeatable as those of the other script.
--
-- KEYS: 1 the fence counter; then per command its locks, as many queues and, with an owner, as many sets of holds.
-- ARGV: 1 floor, 2 prefix of the channels; then per command: letter, token, owner ('' without one), number of locks,
-- and for t w k: ttl block; for s: new ttl; for g: nothing.
-- granted: {last number of the block, 0, -1, how many holds of the owner there are}.
--
-- Without an owner the value of a lock is the token. With one it is "hf1.o." and the owner; a sorted set beside it has the tokens
-- that hold it, each with the instant in milliseconds at which it is over, so that a command sent twice counts once and a holder
-- that crashed stops counting.
--
-- Who waits for several locks stands in the queue of one: the first, in the order of their names, that somebody else has.
-- A lock that is granted to it there bears its token, and is kept for it only while it waits for one that comes later in that
-- order: so nobody waits in a circle (ordered acquisition: Havender, 1968).

local call = redis.call

