-- Prelude of every script on a state: which version is stored, and is it the expected one?
-- Only the first 49 bytes are looked at, and nothing is decoded: cjson loses digits and fails on lone surrogates.

-- Returns the version, "" for a record in another layout, or nil if there is none.
local function version_of(key)
  local head = redis.call('GETRANGE', key, 0, 48)
  if head == '' and redis.call('EXISTS', key) == 0 then return nil end
  return #head == 49 and string.match(head, '^{"version":"([0-9a-f%-]+)"$') or ''
end

-- expected: "" = nothing may be stored.  sha1: of the foreign bytes in which the caller read `expected`, or "".
-- Returns "yes", "no" or "foreign" (the caller has to read the record and send a SHA-1), and the version or "".
local function matches(key, expected, sha1)
  local version = version_of(key)
  if version == nil then return expected == '' and 'yes' or 'no', '' end
  if expected == '' then return 'no', version end
  if version ~= '' then return version == expected and 'yes' or 'no', version end
  if sha1 == '' then return 'foreign', '' end
  return redis.sha1hex(redis.call('GET', key)) == sha1 and 'yes' or 'no', ''
end
