-- Commands about cached values and the locks of those who load them, in order, each answered by itself.
--
-- KEYS: 1 the fence counter; then per command its value, the lock of whoever loads it, the queue of those who wait for that
--   lock, the cores that wait for the value, and what is left behind by a load that failed.
-- ARGV: 1 floor, 2 prefix of the channels; then per command, beginning with a letter:
--   l token core backs_off     look           → {PTTL, value} if it is fresh | {'e', error} | 0 nobody loads it | {'t', PTTL of the lock}
--   f token how what ms        a load is over → 1 | 0 the lock isn't this turn's | -1 the key holds something else
--   o how what ms              overrule       → 1 there was a value | 0
--   g token                    give the lock  → 1 given | 0 not ours
-- A value that is kept for longer than it is fresh says for how much longer; see store/value.rs. Only the server's clock is read.

local call = redis.call
