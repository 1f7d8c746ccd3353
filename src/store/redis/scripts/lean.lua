-- A burst of commands in one call: takes, gives, keeps, swaps and beats, in order, each answered by itself.
--
-- KEYS: 1 the fence counter; then per command its lock and the queue of those who wait for it.
-- ARGV: 1 floor, 2 prefix of the channels; then per command, beginning with a letter:
--   t token ttl block   take, without waiting     → granted | refused
--   w token ttl block   take, or queue            → the same
--   b token block       a look at our own place   → granted | refused | 0 not queued
--   g token             give                      → 1 given | 0 not ours
--   k token ttl block   keep                      → last number (1 if block is 0), or {that, 1} if others wait | 0 not ours
--   s token new ttl     swap                      → 1 | 0 not ours
-- granted: last number of the block, or {last, whether others wait, PTTL if it isn't what was asked for}.
-- refused: {mark, PTTL, holder, whether we are first in the queue}.
-- Every command is safe to repeat, in any order, at any later time: it compares the whole token, and a token names
-- one turn for ever. Only the server's clock is read. A command that fails answers its error and leaves the others alone.

local call = redis.call
local tried -- a take has found the lock taken, or somebody waiting for it

-- The way of most calls: one command, which meets nothing unusual. It leaves out the making of the functions below, which
-- costs as much as the command itself. Whatever else comes goes on there, where a take is one that is repeated.
if #KEYS == 3 then
  local how, lock, token, floor = ARGV[3], KEYS[2], ARGV[4], tonumber(ARGV[1])
  if (how == 'w' or how == 't') and floor < 9007199254740992 then
    tried = call('EXISTS', KEYS[3]) == 1
    if not tried then
      local set = redis.pcall('SET', lock, token, 'NX', 'PX', ARGV[5])
      tried = not set
      if type(set) == 'table' and set.ok then
        local f = redis.pcall('INCRBY', KEYS[1], ARGV[6])
        if type(f) == 'number' then
          if f - ARGV[6] >= floor then return { f } end
          call('INCRBY', KEYS[1], -ARGV[6]) -- the floor is for the number before the block
        end
      end
    end
  elseif how == 'g' and call('EXISTS', KEYS[3]) == 0 then
    local holder = redis.pcall('GET', lock)
    if holder == token then return { call('DEL', lock) } end
    if type(holder) ~= 'table' then return { 0 } end
  end
end
