
-- What the scripts have in common.

local counter, floor, channels = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local pushed_block = 16
local queue_lasts = 60000 -- ms; renewed by those who wait

-- Reserves n numbers and returns the last. A counter at or below the floor is new, was lost or comes from a server that
-- failed over: the clock in microseconds then takes its place, which is ahead as long as fewer than one number per
-- microsecond is reserved. The number *before* the block is compared. Cf. hybrid logical clocks (Kulkarni et al., 2014).
-- fence(0) is the mark of a refusal: what is granted after it has greater numbers.
local function fence(n)
  local f
  if n > 0 then f = call('INCRBY', counter, n) else f = tonumber(call('GET', counter) or 0) end
  if f - n >= floor then return f end
  local t = call('TIME')
  local clock = t[1] * 1000000 + t[2] + n
  if clock > f then f = clock end
  -- Not written for want of memory, a mark is still true.
  local write = n > 0 and call or redis.pcall
  write('SET', counter, string.format('%.0f', f), 'PX', 86400000)
  return f
end

-- Never shortens.
local function raise(lock, ttl)
  if call('PTTL', lock) < tonumber(ttl) then call('PEXPIRE', lock, ttl) end
end

-- What a token of ours says: 'h' if its core can be told by push, the core, the first ttl of a lease that is granted to it.
local function parts(token)
  return string.match(token, '^hf1%.([hp])%.(%x+)%.%d+%.(%d+)$')
end

-- Gives a free lock to the first in its queue who can be reached, and returns its token; nil if there is none, and then
-- the lock is free. If it is `me`, nothing is written: that is for the caller.
-- The order matters: without memory a grant must not go out that was not written, and SET is allowed after ZPOPMIN.
local function pass_on(lock, queue, me)
  local written
  while true do
    local first = call('ZPOPMIN', queue)[1]
    if first == me or not first then
      if written then call('DEL', lock) end
      return first
    end
    local kind, core, claim = parts(first)
    -- Of another version: it can't be told, and isn't waited for.
    if kind then
      call('SET', lock, first, 'PX', claim)
      written = true
      local last = fence(pushed_block)
      if kind == 'p' then return first end
      local grant = 'g ' .. first .. ' ' .. string.format('%.0f', last) .. ' ' .. pushed_block .. ' '
        .. call('EXISTS', queue) .. ' ' .. lock
      -- Nobody received it: it is dead. An error, as without the right to publish, says nothing of it.
      if redis.pcall('PUBLISH', channels .. core, grant) ~= 0 then return first end
    end
  end
end

-- Frees a lock for whoever comes next.
local function free(lock, queue)
  if not pass_on(lock, queue) then call('DEL', lock) end
end

local function give_plain(lock, queue, token)
  local waiting = call('EXISTS', queue) == 1
  if waiting then call('ZREM', queue, token) end
  if call('GET', lock) ~= token then return 0 end
  if waiting then free(lock, queue) else call('DEL', lock) end
  return 1
end

-- Tells the holder that somebody waits.
local function want(lock, holder)
  local kind, core = parts(holder)
  if kind == 'h' then redis.pcall('PUBLISH', channels .. core, 'w ' .. holder .. ' ' .. lock) end
end

-- Waits for a lock, if it doesn't yet. The order needs no clock. Whoever is first tells the holder.
local function enqueue(lock, queue, token, holder)
  if not call('ZSCORE', queue, token) then
    local last = call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')[2]
    call('ZADD', queue, (last or 0) + 1, token)
    if not last then want(lock, holder) end
  end
  call('PEXPIRE', queue, queue_lasts)
end

local function refused(lock, queue, token)
  local first = call('ZRANGE', queue, 0, 0)[1] == token
  return { fence(0), call('PTTL', lock), call('GET', lock) or '', first and 1 or 0 }
end

-- A command answers its error and leaves the others alone.
local function answered(ok, answer)
  if not ok and type(answer) == 'string' then
    -- Before Redis 7 a failed call throws text: the place in the script, maybe a minus, the error, maybe a line end.
    return { err = string.match(answer, '^.-user_script: ?%d+: %-?(.-)%s*$') or answer }
  end
  return answer
end
