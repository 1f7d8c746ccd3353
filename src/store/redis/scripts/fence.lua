
-- What the scripts have in common.

local counter, floor, wanted = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local identity = 38 -- length of "hf1.p." and the core id: what tells one process from another

-- Reserves n numbers and returns the last. A counter at or below the floor is new, was lost or comes from a server that
-- failed over: the clock in microseconds then takes its place, which is ahead as long as fewer than one number per
-- microsecond is reserved. The number *before* the block is compared. Cf. hybrid logical clocks (Kulkarni et al., 2014).
local function fence(n)
  local f
  if n > 0 then f = call('INCRBY', counter, n) else f = tonumber(call('GET', counter) or 0) end
  if f - n >= floor then return f end
  local t = call('TIME')
  local clock = t[1] * 1000000 + t[2] + n
  if clock > f then f = clock end
  call('SET', counter, string.format('%.0f', f), 'PX', 86400000)
  return f
end

-- Never shortens.
local function raise(lock, ttl)
  if call('PTTL', lock) < tonumber(ttl) then call('PEXPIRE', lock, ttl) end
end

-- A command answers its error and leaves the others alone.
local function answered(ok, answer)
  if not ok and type(answer) == 'string' then
    -- Before Redis 7 a failed call throws text: the place in the script, maybe a minus, the error, maybe a line end.
    return { err = string.match(answer, '^.-user_script: ?%d+: %-?(.-)%s*$') or answer }
  end
  return answer
end
