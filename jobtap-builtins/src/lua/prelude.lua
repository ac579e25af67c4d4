-- Makes of a fresh state of Lua 5.4 what a job_submit.lua expects: the functions of Lua 5.1 beside or in
-- place of those of 5.4, limits that can't be caught, and the table `slurm`.
--
-- What is left of a script's mistakes must read as in Slurm: an error names the line of the script, not one
-- of this file. So functions here never let an error of another function pass: they call it through
-- `pcall` and raise its text again at the level of the script.
--
-- `served` are the modules in place of those written in C, by name, `native` the functions that Rust provides, and
-- `options` what the configuration says:
--   lua51       whether scripts see Lua 5.1 (true) or 5.4 as it is
--   sandbox     whether files, processes and the like are out of reach
--   directory   the directory of the script
--   constants   what `slurm` holds beside functions, by name
--   absent      the functions that `slurm` lacks in the release of the script

local native, options, served = ...
local lua51, sandbox = options.lua51, options.sandbox

local error, pcall, xpcall, type, select = error, pcall, xpcall, type, select
local rawget, rawset, next, pairs, ipairs = rawget, rawset, next, pairs, ipairs
local getmetatable, setmetatable, tonumber, tostring, load = getmetatable, setmetatable, tonumber, tostring, load
local math_type, tointeger, floor, ceil = math.type, math.tointeger, math.floor, math.ceil
local string_byte, string_sub, string_gsub = string.byte, string.sub, string.gsub
local string_format, string_find, string_match = string.format, string.find, string.match
local table_concat, table_unpack, table_pack = table.concat, table.unpack, table.pack
local package, G = package, _G

-- Passes the results of `pcall(f, ..)` on. To be called as the last thing that a function does: then the
-- level of its caller is 2.
local function results(name, ok, ...)
  if ok then
    return ...
  end
  local message = ...
  if type(message) == "string" then
    message = string_gsub(message, "'%?'", "'" .. name .. "'", 1)
  end
  error(message, 2)
end

-- At level 1, the caller is a function that a script calls.
local function bad_argument(index, name, expected, value, level)
  local got = value == nil and "nil" or type(value)
  local text = "bad argument #%d to '%s' (%s expected, got %s)"
  error(string_format(text, index, name, expected, got), level + 2)
end

---------------------------------------------------------------------------------------------------
-- Numbers and text

-- A number as text. Lua 5.1 has one kind of number and writes 14 digits of it.
local function number_text(number)
  if not lua51 then
    return tostring(number)
  end
  if math_type(number) == "integer" and number > -100000000000000 and number < 100000000000000 then
    return tostring(number)
  end
  return string_format("%.14g", number)
end

-- A string as an argument: a number becomes text, all else stays as it is.
local function as_text(value)
  if type(value) == "number" then
    return number_text(value)
  end
  return value
end

-- An integer as an argument: Lua 5.1 cuts off the fraction.
local function as_whole(value)
  if lua51 and type(value) == "string" then
    value = tonumber(value) or value
  end
  if not lua51 or math_type(value) ~= "float" then
    return value
  end
  local whole = value >= 0 and floor(value) or ceil(value)
  return tointeger(whole) or (value > 0 and math.maxinteger or math.mininteger)
end

local function check_text(value, index, name, level)
  value = as_text(value)
  if type(value) ~= "string" then
    bad_argument(index, name, "string", value, level + 1)
  end
  return value
end

if lua51 then
  function G.tostring(value)
    if type(value) == "number" then
      return number_text(value)
    end
    return results("tostring", pcall(tostring, value))
  end
end
local to_text = G.tostring

---------------------------------------------------------------------------------------------------
-- Concatenation as in Lua 5.1: see `dialect.rs`

local marker, joined = {}, {}

local function joinable(value)
  local kind = type(value)
  return kind == "string" or kind == "number"
end

-- The marker takes the operand on its right.
function marker.__concat(site, right)
  if getmetatable(right) == joined then
    right = right.right
  elseif not joinable(right) then
    local meta = getmetatable(right)
    if type(meta) == "table" and rawget(meta, "__concat") then
      return right
    end
  end
  return setmetatable({ site = site, right = right }, joined)
end

-- Then it meets the operand on its left.
function joined.__concat(left, pair)
  local right = pair.right
  if joinable(left) and joinable(right) then
    return as_text(left) .. as_text(right)
  end
  local site, bad, name = pair.site, right, pair.site.right
  if not joinable(left) then
    bad, name = left, site.left
  end
  name = name and " (" .. name .. ")" or ""
  error("attempt to concatenate a " .. type(bad) .. " value" .. name, 2)
end

function joined.__tostring(pair)
  return to_text(pair.right)
end

-- Found as `("")[N]`.
local sites = { [0] = function(...) return { n = select("#", ...), ... } end }
if lua51 then
  setmetatable(string, { __index = sites })
end

---------------------------------------------------------------------------------------------------
-- Loading of source text

local function compile(source, name, environment, ...)
  if string_byte(source, 1) == 27 then
    return nil, "compiled Lua can't be loaded, only its source text"
  end
  if lua51 then
    local operands
    source, operands = native.rewrite(source, #sites + 1)
    for index = 1, #operands do
      sites[#sites + 1] = setmetatable(operands[index], marker)
    end
  end
  if select("#", ...) > 0 then
    return load(source, name, "t", (...))
  end
  return load(source, name, "t")
end

local function compile_file(path, ...)
  local source, message = native.read_source(path)
  if not source then
    return nil, message
  end
  return compile(source, "@" .. path, nil, ...)
end

function G.load(chunk, name, mode, ...)
  if type(chunk) == "function" then
    local pieces = {}
    while true do
      local piece = chunk()
      if piece == nil or piece == "" then
        break
      end
      if type(piece) ~= "string" then
        return nil, "reader function must return a string"
      end
      pieces[#pieces + 1] = piece
    end
    return compile(table_concat(pieces), name or "=(load)", nil, ...)
  end
  chunk = check_text(chunk, 1, "load", 1)
  return compile(chunk, name or chunk, nil, ...)
end

function G.loadstring(chunk, name)
  chunk = check_text(chunk, 1, "loadstring", 1)
  return compile(chunk, name or chunk)
end

if not sandbox then
  function G.loadfile(path, mode, ...)
    return compile_file(check_text(path, 1, "loadfile", 1), ...)
  end

  function G.dofile(path)
    local chunk, message = compile_file(check_text(path, 1, "dofile", 1))
    if not chunk then
      error(message, 0)
    end
    return chunk()
  end
else
  G.loadfile, G.dofile = nil, nil
end

local here = options.directory
local beside = here .. "/?.lua;" .. here .. "/?/init.lua"
package.path = beside
if not sandbox then
  for _, version in ipairs({ "5.4", "5.1" }) do
    for _, root in ipairs({ "/usr/local/share/lua/", "/usr/share/lua/" }) do
      local place = root .. version
      package.path = package.path .. ";" .. place .. "/?.lua;" .. place .. "/?/init.lua"
    end
  end
end
package.cpath = ""
local search = package.searchpath

local function load_module(name, path)
  local chunk, reason = compile_file(path)
  if not chunk then
    error("error loading module '" .. name .. "' from file '" .. path .. "':\n\t" .. reason, 0)
  end
  return chunk, path
end

package.searchers = {
  function(name)
    local found = package.preload[name]
    if found ~= nil then
      return found, ":preload:"
    end
    return "no field package.preload['" .. name .. "']"
  end,
  -- A file beside the script comes before a module that is served, and one of the system after it, since that may
  -- need its part in C.
  function(name)
    local path = search(name, beside)
    if path then
      return load_module(name, path)
    end
    local module = served[name]
    if module then
      return function()
        return module
      end, ":served:"
    end
    return "\n\tno module '" .. name .. "' is served"
  end,
  function(name)
    local path, message = search(name, package.path)
    if not path then
      return message
    end
    return load_module(name, path)
  end,
  function()
    return "modules written in C can't be loaded"
  end,
}
package.loaders = package.searchers
function package.loadlib()
  return nil, "modules written in C can't be loaded", "absent"
end
function package.seeall(module)
  setmetatable(module, { __index = G })
end

-- The functions of Lua 5.1 that give a function its environment.
function G.setfenv(target, environment)
  if type(environment) ~= "table" then
    bad_argument(2, "setfenv", "table", environment, 1)
  end
  if type(target) == "function" then
    native.set_environment(target, environment)
    return target
  end
  local level = as_whole(target)
  if type(level) ~= "number" then
    bad_argument(1, "setfenv", "number", target, 1)
  end
  local found = level > 0 and native.function_at(level + 1)
  if not found then
    error("bad argument #1 to 'setfenv' (invalid level)", 2)
  end
  native.set_environment(found, environment)
  return found
end

function G.getfenv(target)
  if type(target) ~= "function" then
    local level = as_whole(target == nil and 1 or target)
    if type(level) ~= "number" then
      bad_argument(1, "getfenv", "number", target, 1)
    end
    target = level > 0 and native.function_at(level + 1)
  end
  return target and native.environment(target) or G
end

function G.module(name, ...)
  name = check_text(name, 1, "module", 1)
  local module = package.loaded[name]
  if type(module) ~= "table" then
    -- The table by that name, through the tables of a dotted name.
    module = G
    local rest = name .. "."
    while rest ~= "" do
      local part, tail = string_match(rest, "^([^.]*)%.(.*)$")
      local inner = rawget(module, part)
      if inner == nil then
        inner = {}
        rawset(module, part, inner)
      elseif type(inner) ~= "table" then
        error("name conflict for module '" .. name .. "'", 2)
      end
      module, rest = inner, tail
    end
    package.loaded[name] = module
  end
  if module._NAME == nil then
    module._M, module._NAME = module, name
    module._PACKAGE = string_gsub(name, "[^.]*$", "")
  end
  local caller = native.function_at(2)
  if caller then
    native.set_environment(caller, module)
  end
  for _, option in ipairs({ ... }) do
    option(module)
  end
end

---------------------------------------------------------------------------------------------------
-- Limits that a script can't catch

-- Past a limit, every call that catches errors raises the error again.
local function unless_expired(...)
  local limit = native.expired()
  if limit then
    error(limit, 0)
  end
  return ...
end

function G.pcall(...)
  return unless_expired(pcall(...))
end

-- When the limit is reached, the error is raised where no other limit holds, so that no handler of a script
-- may run then.
function G.xpcall(call, handler, ...)
  local function guarded(...)
    if native.expired() then
      return (...)
    end
    return handler(...)
  end
  return unless_expired(xpcall(call, guarded, ...))
end

-- Accounts for the steps of a function that Lua counts as one instruction: so many as it has elements or bytes.
local function spend(steps)
  local limit = native.spend(steps)
  if limit then
    error(limit, 0)
  end
end

-- The same for functions that are called often, of long texts only.
local function spend_on_text(text)
  if type(text) == "string" and #text > 16384 then
    spend(#text / 16)
  end
end

local resume, close = coroutine.resume, coroutine.close
function coroutine.resume(...)
  return unless_expired(resume(...))
end
function coroutine.close(...)
  return unless_expired(close(...))
end

-- Finalizers would run where no limit holds, so none is called, as none is for tables in Lua 5.1.
function G.setmetatable(object, meta)
  local finalizer = type(meta) == "table" and rawget(meta, "__gc")
  if finalizer then
    rawset(meta, "__gc", nil)
    local ok, result = pcall(setmetatable, object, meta)
    rawset(meta, "__gc", finalizer)
    return results("setmetatable", ok, result)
  end
  return results("setmetatable", pcall(setmetatable, object, meta))
end

---------------------------------------------------------------------------------------------------
-- Strings

for _, name in ipairs({ "len", "lower", "upper", "reverse" }) do
  local original = string[name]
  string[name] = function(text)
    spend_on_text(text)
    return results(name, pcall(original, as_text(text)))
  end
end

local string_char, string_rep = string.char, string.rep
function string.sub(text, first, last)
  return results("sub", pcall(string_sub, as_text(text), as_whole(first), as_whole(last)))
end

function string.byte(text, first, last)
  return results("byte", pcall(string_byte, as_text(text), as_whole(first), as_whole(last)))
end

function string.char(...)
  local codes = table_pack(...)
  for index = 1, codes.n do
    codes[index] = as_whole(codes[index])
  end
  return results("char", pcall(string_char, table_unpack(codes, 1, codes.n)))
end

function string.rep(text, count, separator)
  text, count = as_text(text), as_whole(count)
  if lua51 then
    separator = nil
  end
  if text == "" and (separator == nil or separator == "") and type(count) == "number" and count > 1 then
    -- Lua would count to `count` for an empty text.
    count = 1
  end
  local ok, made = pcall(string_rep, text, count, separator)
  if ok then
    spend_on_text(made)
  end
  return results("rep", ok, made)
end

-- Where a search begins, of an argument that may be missing or negative; nothing if past the end.
local function search_start(text, first, name)
  first = as_whole(first)
  if first == nil then
    return 1
  end
  local start = tointeger(tonumber(first))
  if not start then
    bad_argument(3, name, "number", first, 2)
  end
  if start < 0 then
    start = start + #text + 1
  end
  if start > #text + 1 then
    return lua51 and #text + 1 or nil
  end
  return start < 1 and 1 or start
end

-- `native.find(text, pattern, start, caret)` returns first and last byte of a match and its captures,
-- nothing, or false and a message. With `caret` a `^` is nothing special.
local native_find = native.find

local function searched(first, ...)
  if first == false then
    error((...), 2)
  end
  return first, ...
end

function string.find(text, pattern, first, plain)
  text, pattern = check_text(text, 1, "find", 1), check_text(pattern, 2, "find", 1)
  local start = search_start(text, first, "find")
  if not start then
    return nil
  end
  if plain or not string_find(pattern, "[%^%$%*%+%?%.%(%[%%%-]") then
    return native.find_text(text, pattern, start)
  end
  return searched(native_find(text, pattern, start, false))
end

local function matched(text, first, last, ...)
  if first == false then
    error(last, 2)
  end
  if not first then
    return nil
  end
  if select("#", ...) == 0 then
    return string_sub(text, first, last)
  end
  return ...
end

function string.match(text, pattern, first)
  text, pattern = check_text(text, 1, "match", 1), check_text(pattern, 2, "match", 1)
  local start = search_start(text, first, "match")
  if not start then
    return nil
  end
  return matched(text, native_find(text, pattern, start, false))
end

function string.gmatch(text, pattern)
  text, pattern = check_text(text, 1, "gmatch", 1), check_text(pattern, 2, "gmatch", 1)
  local position, last_end = 1, nil
  local iterate
  local function advance(first, last, ...)
    if first then
      local empty = last < first
      position = empty and first + 1 or last + 1
      if empty and not lua51 and last == last_end then
        return iterate()
      end
      last_end = last
    end
    return matched(text, first, last, ...)
  end
  function iterate()
    if position > #text + 1 then
      return nil
    end
    return advance(native_find(text, pattern, position, true))
  end
  return iterate
end

-- What stands for `%` and a character in the text by which `gsub` replaces.
local function expand(replacement, whole, found, level)
  if not string_find(replacement, "%", 1, true) then
    return replacement
  end
  local message
  local text = string_gsub(replacement, "%%(.?)", function(character)
    if character == "0" then
      return whole
    elseif string_find(character, "^%d") then
      local index = tonumber(character)
      local capture = found[index]
      if capture == nil and not (index == 1 and found.n == 0) then
        message = message or "invalid capture index %" .. character .. " in replacement string"
      end
      return capture ~= nil and as_text(capture) or whole
    elseif character ~= "%" and not lua51 then
      message = message or "invalid use of '%' in replacement string"
    end
    return character
  end)
  if message then
    error(message, level + 1)
  end
  return text
end

function string.gsub(text, pattern, replacement, limit)
  text, pattern = check_text(text, 1, "gsub", 1), check_text(pattern, 2, "gsub", 1)
  replacement = as_text(replacement)
  local kind = type(replacement)
  if kind ~= "string" and kind ~= "table" and kind ~= "function" then
    bad_argument(3, "gsub", "string/function/table", replacement, 1)
  end
  limit = as_whole(limit)
  if limit ~= nil and type(limit) ~= "number" then
    bad_argument(4, "gsub", "number", limit, 1)
  end
  local anchored = string_byte(pattern, 1) == 94
  local pieces, copied, position, count, last_end = {}, 1, 1, 0, nil
  while (not limit or count < limit) and position <= #text + 1 do
    local found = table_pack(native_find(text, pattern, position, false))
    local first, last = found[1], found[2]
    if first == false then
      error(last, 2)
    elseif not first then
      break
    end
    local empty = last < first
    if not (empty and not lua51 and last == last_end) then
      count = count + 1
      local whole = string_sub(text, first, last)
      local groups = { n = found.n - 2, table_unpack(found, 3, found.n) }
      local value
      if kind == "string" then
        value = expand(replacement, whole, groups, 2)
      elseif kind == "function" then
        if groups.n == 0 then
          value = replacement(whole)
        else
          value = replacement(table_unpack(groups, 1, groups.n))
        end
      else
        local key = groups[1]
        if key == nil then
          key = whole
        end
        value = replacement[key]
      end
      if not value then
        value = whole
      elseif type(value) ~= "string" and type(value) ~= "number" then
        error("invalid replacement value (a " .. type(value) .. ")", 2)
      end
      pieces[#pieces + 1] = string_sub(text, copied, first - 1)
      pieces[#pieces + 1] = as_text(value)
      copied, last_end = last + 1, last
    end
    position = empty and first + 1 or last + 1
    if anchored then
      break
    end
  end
  pieces[#pieces + 1] = string_sub(text, copied)
  return table_concat(pieces), count
end

if lua51 then
  string.gfind = string.gmatch
end

-- What each conversion of a format takes: an integer, any number, or a text.
local whole_number = { d = "d", i = "d", o = "o", u = "d", x = "x", X = "X", c = "c" }
local any_number = { e = true, E = true, f = true, F = true, g = true, G = true, a = true, A = true }

-- `string.format`, whose errors are raised at `level`.
local function format(level, text, ...)
  text = check_text(text, 1, "format", level)
  local arguments = table_pack(...)
  if lua51 then
    local index, message = 0, nil
    text = string_gsub(text, "%%([-+ #0]*%d*%.?%d*)(.?)", function(flags, conversion)
      if conversion == "%" and flags == "" then
        return nil
      end
      index = index + 1
      local value = arguments[index]
      local function refuse(expected)
        local got = value == nil and (index > arguments.n and "no value" or "nil") or type(value)
        message = message
          or "bad argument #" .. index + 1 .. " to 'format' (" .. expected .. " expected, got " .. got .. ")"
      end
      local whole = whole_number[conversion]
      if whole or any_number[conversion] then
        local number = tonumber(value)
        if not number then
          return refuse("number")
        end
        arguments[index] = whole and as_whole(number) or number
        return whole and "%" .. flags .. whole or nil
      elseif conversion == "s" or conversion == "q" then
        value = as_text(value)
        if type(value) ~= "string" then
          return refuse("string")
        end
        arguments[index] = value
      end
      return nil
    end)
    if message then
      error(message, level + 1)
    end
  end
  local ok, result = pcall(string_format, text, table_unpack(arguments, 1, arguments.n))
  if not ok then
    result = string_gsub(result, "'%?'", "'format'", 1)
    error(lua51 and string_gsub(result, "^invalid conversion", "invalid option", 1) or result, level + 1)
  end
  return result
end

function string.format(...)
  return format(1, ...)
end

---------------------------------------------------------------------------------------------------
-- Tables and numbers

local table_sort, table_move = table.sort, table.move

-- The length of a table, which its metatable may have chosen.
local function length(list)
  local ok, count = pcall(function()
    return #list
  end)
  return ok and type(count) == "number" and count or 0
end

-- These take as many steps as there are elements, and Lua counts them as one. The numbers are floats, so that none of
-- them wraps around.
local function span(first, last)
  first, last = tonumber(first), tonumber(last)
  return first and last and last > first and last + 0.0 - first or 0
end

function table.move(from, first, last, ...)
  spend(span(first, last))
  return results("move", pcall(table_move, from, first, last, ...))
end

function table.sort(list, ...)
  local count = length(list)
  if count > 1 then
    spend(count * math.log(count, 2))
  end
  return results("sort", pcall(table_sort, list, ...))
end

if not lua51 then
  local table_insert, table_remove = table.insert, table.remove

  function table.insert(list, ...)
    if select("#", ...) > 1 then
      spend(span((...), length(list)))
    end
    return results("insert", pcall(table_insert, list, ...))
  end

  function table.remove(list, ...)
    if select("#", ...) > 0 then
      spend(span((...), length(list)))
    end
    return results("remove", pcall(table_remove, list, ...))
  end

  function table.concat(list, separator, first, last)
    spend(span(first or 1, last or length(list)))
    return results("concat", pcall(table_concat, list, separator, first, last))
  end
end

if lua51 then
  G.unpack = function(list, first, last)
    return results("unpack", pcall(table_unpack, list, as_whole(first), as_whole(last)))
  end
  -- Scripts ask for these to learn which Lua they have.
  table.pack, table.unpack, table.move = nil, nil, nil

  local function check_table(value, name)
    if type(value) ~= "table" then
      bad_argument(1, name, "table", value, 2)
    end
  end

  function table.concat(list, separator, first, last)
    check_table(list, "concat")
    local from, to = as_whole(first) or 1, as_whole(last) or #list
    local texts = list
    for index = from, to do
      if math_type(list[index]) ~= nil then
        -- Numbers are written as in Lua 5.1: a copy with their texts.
        texts = {}
        for index = from, to do
          texts[index] = as_text(list[index])
        end
        break
      end
    end
    return results("concat", pcall(table_concat, texts, as_text(separator), from, to))
  end

  function table.insert(list, ...)
    check_table(list, "insert")
    local count, position, value = select("#", ...), ...
    if count == 1 then
      list[#list + 1] = position
      return
    elseif count ~= 2 then
      error("wrong number of arguments to 'insert'", 2)
    end
    position = as_whole(position)
    if type(position) ~= "number" then
      bad_argument(2, "insert", "number", position, 1)
    end
    for index = #list, position, -1 do
      list[index + 1] = list[index]
    end
    list[position] = value
  end

  function table.remove(list, position)
    check_table(list, "remove")
    local count = #list
    position = as_whole(position) or count
    if type(position) ~= "number" then
      bad_argument(2, "remove", "number", position, 1)
    end
    if position < 1 or position > count then
      return
    end
    local value = list[position]
    for index = position, count - 1 do
      list[index] = list[index + 1]
    end
    list[count] = nil
    return value
  end

  function G.pairs(list)
    check_table(list, "pairs")
    return next, list, nil
  end

  function G.ipairs(list)
    check_table(list, "ipairs")
    return ipairs(list)
  end

  function table.getn(list)
    check_table(list, "getn")
    return #list
  end

  function table.setn()
    error("'setn' is obsolete", 2)
  end

  function table.maxn(list)
    check_table(list, "maxn")
    local greatest = 0
    for key in next, list do
      if type(key) == "number" and key > greatest then
        greatest = key
      end
    end
    return greatest
  end

  function table.foreach(list, call)
    check_table(list, "foreach")
    for key, value in next, list do
      local result = call(key, value)
      if result ~= nil then
        return result
      end
    end
  end

  function table.foreachi(list, call)
    check_table(list, "foreachi")
    for index = 1, #list do
      local result = call(index, list[index])
      if result ~= nil then
        return result
      end
    end
  end

  local exp, log = math.exp, math.log
  function math.pow(base, exponent)
    return base ^ exponent
  end
  function math.ldexp(number, exponent)
    return number * 2.0 ^ as_whole(exponent)
  end
  function math.frexp(number)
    if number == 0 or number ~= number or number == math.huge or number == -math.huge then
      return number, 0
    end
    local exponent = floor(log(math.abs(number), 2)) + 1
    local fraction = number / 2.0 ^ exponent
    -- The logarithm is rounded, and can be off by one at powers of two.
    if math.abs(fraction) >= 1 then
      fraction, exponent = fraction / 2, exponent + 1
    elseif math.abs(fraction) < 0.5 then
      fraction, exponent = fraction * 2, exponent - 1
    end
    return fraction, exponent
  end
  function math.cosh(number)
    return (exp(number) + exp(-number)) / 2
  end
  function math.sinh(number)
    return (exp(number) - exp(-number)) / 2
  end
  function math.tanh(number)
    local power = exp(-2 * math.abs(number))
    local result = (1 - power) / (1 + power)
    return number < 0 and -result or result
  end
  function math.log10(number)
    return log(number, 10)
  end
  math.mod = math.fmod

  local random, randomseed = math.random, math.randomseed
  function math.random(...)
    local arguments = table_pack(...)
    for index = 1, arguments.n do
      arguments[index] = as_whole(arguments[index])
    end
    return results("random", pcall(random, table_unpack(arguments, 1, arguments.n)))
  end
  function math.randomseed(seed)
    return results("randomseed", pcall(randomseed, as_whole(seed)))
  end

  G._VERSION = "Lua 5.1"

  function G.gcinfo()
    return floor(collectgarbage("count"))
  end

  local os_date, os_time = os.date, os.time
  function os.date(text, time)
    return results("date", pcall(os_date, text, as_whole(time)))
  end
  function os.time(date)
    if type(date) == "table" then
      local copy = {}
      for key, value in pairs(date) do
        copy[key] = as_whole(value)
      end
      date = copy
    end
    return results("time", pcall(os_time, date))
  end
end

---------------------------------------------------------------------------------------------------
-- The system

function G.print(...)
  local texts = table_pack(...)
  for index = 1, texts.n do
    texts[index] = to_text(texts[index])
  end
  native.log("info", table_concat(texts, "\t"))
end

function os.exit()
  error("os.exit is not available: return slurm.SUCCESS or an error instead", 2)
end

function os.setlocale(locale)
  return (locale == nil or locale == "C" or locale == "") and "C" or nil
end

-- The output of a command, as a file.
local process = {}
process.__index = process
process.__name = "FILE*"

local function read_one(file, wanted, level)
  local output, at = file.output, file.at
  if type(wanted) == "number" then
    if at > #output and wanted > 0 then
      return nil
    end
    file.at = at + as_whole(wanted)
    return string_sub(output, at, file.at - 1)
  end
  wanted = string_gsub(check_text(wanted, 1, "read", level), "^%*", "")
  local kind = string_sub(wanted, 1, 1)
  if kind == "a" then
    file.at = #output + 1
    return string_sub(output, at)
  elseif kind == "l" or kind == "L" then
    if at > #output then
      return nil
    end
    local stop = string_find(output, "\n", at, true)
    file.at = (stop or #output) + 1
    return string_sub(output, at, stop and kind == "l" and stop - 1 or stop or #output)
  elseif kind == "n" then
    local first, last = string_find(output, "^%s*[-+.%x]+", at)
    file.at = first and last + 1 or at
    return first and tonumber(string_sub(output, first, last)) or nil
  end
  error("bad argument #1 to 'read' (invalid format)", level + 1)
end

function process:read(...)
  if self.closed then
    error("attempt to use a closed file", 2)
  end
  local wanted = table_pack(...)
  if wanted.n == 0 then
    wanted = { n = 1, "l" }
  end
  local values = {}
  for index = 1, wanted.n do
    values[index] = read_one(self, wanted[index], 2)
    if values[index] == nil then
      return table_unpack(values, 1, index)
    end
  end
  return table_unpack(values, 1, wanted.n)
end

function process:lines(wanted)
  return function()
    return self:read(wanted or "l")
  end
end

function process:write(...)
  if self.closed or not self.input then
    return nil, "Bad file descriptor", 9
  end
  for _, text in ipairs({ ... }) do
    self.input[#self.input + 1] = as_text(text)
  end
  return self
end

function process:flush()
  return self
end

function process:setvbuf()
  return true
end

-- As the C library has it: 256 times an exit code, or the number of a signal.
local function ended(status)
  if lua51 then
    return true
  end
  if status % 256 ~= 0 then
    return nil, "signal", status % 128
  end
  return status == 0 or nil, "exit", status // 256
end

function process:close()
  if self.closed then
    error("attempt to use a closed file", 2)
  end
  self.closed = true
  if self.input then
    local status, message = native.run(self.command, table_concat(self.input), false)
    if not status then
      return nil, message
    end
    self.status = status
  end
  return ended(self.status)
end
process.__close = process.close
function process:__tostring()
  return self.closed and "file (closed)" or "file (" .. self.command .. ")"
end

if sandbox then
  G.io = nil
  os.execute, os.remove, os.rename, os.tmpname, os.getenv = nil, nil, nil, nil, nil
else
  local file_type, open, input = io.type, io.open, io.input

  -- Opens files only: a pipe or a device may block, and no limit holds there.
  local function open_file(path, mode)
    local name, message, number = native.open(path, mode)
    if not name then
      return nil, path .. ": " .. message, number
    end
    local file
    file, message, number = open(name, mode)
    native.opened()
    return file, message, number
  end

  local function check_mode(mode, name)
    mode = mode == nil and "r" or check_text(mode, 2, name, 2)
    if not string_find(mode, "^[rwa]%+?b?$") and not (lua51 and string_find(mode, "^[rwa]b%+$")) then
      error("bad argument #2 to '" .. name .. "' (invalid mode)", 3)
    end
    return mode
  end

  function io.open(path, mode)
    return open_file(check_text(path, 1, "open", 1), check_mode(mode, "open"))
  end

  -- As `io.open`, but an error is raised.
  local function open_or_fail(path, mode, level)
    local file, message = open_file(path, mode)
    if not file then
      error(message, level + 1)
    end
    return file
  end

  function io.lines(path, ...)
    if path == nil then
      return input():lines(...)
    end
    local file = open_or_fail(check_text(path, 1, "lines", 1), "r", 2)
    local read = file:lines(...)
    local function line(...)
      if (...) == nil then
        file:close()
      end
      return ...
    end
    local function iterate()
      if file_type(file) == "closed file" then
        error("file is already closed", 2)
      end
      return line(read())
    end
    if lua51 then
      return iterate
    end
    return iterate, nil, nil, file
  end

  -- A script has no standard input: reading it would wait for ever.
  io.stdin = open("/dev/null")
  input(io.stdin)
  -- A metatable that a script could change would bring finalizers back.
  getmetatable(io.stdin).__metatable = "file"

  function io.input(file)
    if joinable(file) then
      file = open_or_fail(as_text(file), "r", 2)
    end
    if file == nil then
      return input()
    end
    return results("input", pcall(input, file))
  end

  -- Nor has it an output: what it writes goes to the log, where `print` writes. The manager's own may be a pipe that
  -- nothing reads.
  local console = { output = "", at = 1 }
  function console:write(...)
    local texts = table_pack(...)
    for index = 1, texts.n do
      texts[index] = check_text(texts[index], index, "write", 1)
    end
    local text = string_gsub(table_concat(texts), "\n$", "")
    if text ~= "" then
      native.log("info", text)
    end
    return self
  end
  function console:close()
    return nil, "Bad file descriptor", 9
  end
  console.__index = function(_, name)
    return rawget(console, name) or process[name]
  end
  console.__name = "FILE*"
  console.__tostring = function()
    return "file (log)"
  end
  console.__metatable = "file"
  io.stdout, io.stderr = setmetatable({}, console), setmetatable({}, console)
  local output = io.stdout
  local is_console = { [io.stdout] = true, [io.stderr] = true }

  function io.output(file)
    if joinable(file) then
      file = open_or_fail(as_text(file), "w", 2)
    end
    if file ~= nil then
      if not io.type(file) then
        bad_argument(1, "output", "FILE*", file, 1)
      end
      output = file
    end
    return output
  end

  function io.write(...)
    return results("write", pcall(output.write, output, ...))
  end

  local close_file = io.close
  function io.close(file)
    file = file == nil and output or file
    if file_type(file) then
      return results("close", pcall(close_file, file))
    end
    return file:close()
  end

  function io.type(value)
    if getmetatable(value) == process then
      return value.closed and "closed file" or "file"
    elseif is_console[value] then
      return "file"
    end
    return file_type(value)
  end

  function io.popen(command, mode)
    command = check_text(command, 1, "popen", 1)
    if mode == "w" then
      return setmetatable({ command = command, input = {} }, process)
    elseif mode ~= nil and mode ~= "r" then
      error("bad argument #2 to 'popen' (invalid mode)", 2)
    end
    local status, output = native.run(command, "", true)
    if not status then
      return nil, command .. ": " .. output
    end
    return setmetatable({ command = command, status = status, output = output, at = 1 }, process)
  end

  function os.execute(command)
    if command == nil then
      return lua51 and 1 or true
    end
    local status, message = native.run(check_text(command, 1, "execute", 1), "", false)
    if lua51 then
      return status or -1
    elseif not status then
      return nil, message
    end
    return ended(status)
  end
end

if not sandbox then
  local debug = {}
  function debug.traceback(first, ...)
    local message, level = first, ...
    if type(first) == "thread" then
      message, level = ...
    end
    if message ~= nil and not joinable(message) then
      return message
    end
    return native.traceback(message ~= nil and as_text(message) or nil, as_whole(level) or 1)
  end
  function debug.getinfo(target)
    if type(target) == "function" then
      return native.info_of(target)
    end
    return native.info_at((as_whole(target) or 1) + 1)
  end
  function debug.getmetatable(value)
    return getmetatable(value)
  end
  G.debug, package.loaded.debug = debug, debug
end

---------------------------------------------------------------------------------------------------
-- The table `slurm`

local slurm = options.constants
G.slurm = slurm

for name, level in pairs({
  log_error = "error",
  log_info = "info",
  log_verbose = "verbose",
  log_debug = "debug",
  log_debug2 = "debug",
  log_debug3 = "debug",
  log_debug4 = "debug",
}) do
  slurm[name] = function(...)
    native.log(level, format(2, ...))
  end
end

-- As in Slurm these take the last of their arguments, and one that is no text is no error.
local function last_text(...)
  local count = select("#", ...)
  local value = count > 0 and as_text((select(count, ...)))
  return type(value) == "string" and value or nil
end

function slurm.log(...)
  local number = tonumber((select(-2, nil, nil, ...))) or 0
  local name = number < 1 and "info" or number < 2 and "verbose" or "debug"
  native.log(name, last_text(...) or "(null)")
end

function slurm.error(...)
  native.log("error", last_text(...) or "(null)")
end

function slurm.log_user(...)
  native.message(format(2, ...))
end

function slurm.user_msg(...)
  native.message(last_text(...))
end

function slurm.time_str2mins(text)
  return native.minutes(check_text(text, 1, "time_str2mins", 1))
end

function slurm.get_qos_priority(name)
  return native.qos_priority(check_text(name, 1, "get_qos_priority", 1))
end

for _, form in ipairs({ "json", "yaml" }) do
  slurm["to_" .. form] = function(value)
    local text, message = native.to_document(form, value)
    if not text then
      error("slurm.to_" .. form .. ": " .. message, 2)
    end
    return text
  end
  slurm["from_" .. form] = function(text)
    local ok, value = native.from_document(form, check_text(text, 1, "from_" .. form, 1))
    if not ok then
      error("slurm.from_" .. form .. ": " .. value, 2)
    end
    return value
  end
end

for _, name in ipairs(options.absent) do
  slurm[name] = nil
end

-- The name of a field, as Slurm takes it.
local function field_name(name, level)
  name = as_text(name)
  if type(name) ~= "string" then
    bad_argument(2, "?", "string", name, level + 1)
  end
  return name
end

local function environment_of(call)
  return setmetatable({}, {
    __index = function(_, name)
      return native.get_variable(call, field_name(name, 1))
    end,
    __newindex = function(_, name, value)
      name = field_name(name, 1)
      if not joinable(value) then
        bad_argument(3, "?", "string", value, 1)
      end
      local message = native.set_variable(call, name, as_text(value))
      if message then
        error(message, 2)
      end
    end,
  })
end

local function description_of(call)
  local environment
  return setmetatable({}, {
    __index = function(_, name)
      name = field_name(name, 1)
      if name == "environment" then
        environment = environment or environment_of(call)
        return environment
      end
      return native.get_field(call, name)
    end,
    __newindex = function(_, name, value)
      local message = native.set_field(call, field_name(name, 1), value)
      if message then
        error(message, 2)
      end
    end,
  })
end

-- A record that can only be read. What a script writes stays in the table, as in Slurm.
local function record_of(call, kind, index)
  return setmetatable({}, {
    __index = function(_, name)
      return native.get_record(call, kind, index, field_name(name, 1))
    end,
  })
end

local function records_of(call, kind)
  local records = {}
  for index, name in ipairs(native.names(call, kind)) do
    records[name] = record_of(call, kind, index)
  end
  return records
end

-- `slurm.jobs` and `slurm.reservations` are made when they are used, once in each call.
local current, lists = 0, {}
setmetatable(slurm, {
  __index = function(_, name)
    if name == "jobs" or name == "reservations" then
      lists[name] = lists[name] or records_of(current, name)
      return lists[name]
    end
  end,
})

-- Functions that Slurm has, too, though scripts have no need of them.
function G._get_job_req_field_name(description, name)
  return description[name]
end
function G._set_job_req_field(description, name, value)
  description[name] = value
  return 0
end
function G._get_job_env_field_name(description, name)
  return description.environment[name]
end
function G._set_job_env_field(description, name, value)
  description.environment[name] = value
  return 0
end
function G._get_part_rec_field(partition, name)
  return partition[name]
end

---------------------------------------------------------------------------------------------------
-- What Rust calls

-- The text of what a script raised.
local function error_text(raised)
  if joinable(raised) then
    local text = as_text(raised)
    if lua51 then
      -- 5.1 names the operand first: attempt to call global 'f' (a nil value).
      text = string_gsub(text, "(attempt to [%a ]-) (an? %w+ value) %((%w+ '[^']*')%)$", "%1 %3 (%2)", 1)
    end
    return text
  end
  local meta = type(raised) == "table" and getmetatable(raised)
  if meta and rawget(meta, "__tostring") then
    local ok, text = pcall(tostring, raised)
    if ok then
      return text
    end
  end
  return "the script raised a " .. type(raised) .. " value, not a text"
end

-- The integer of what a script returned; nothing if it isn't a number.
local function return_code(value)
  if not joinable(value) then
    return nil
  end
  return tonumber(value)
end

-- Runs the script itself. Returns whether that worked, and else why not.
local function run(source, path)
  local chunk, message = compile(source, "@" .. path)
  if not chunk then
    return false, message
  end
  local ok, result = xpcall(chunk, error_text)
  if not ok then
    return false, result
  end
  local code = return_code(result)
  if code and code ~= 0 then
    return false, "the script returned " .. number_text(code) .. " when it was loaded; it must return 0 or nothing"
  end
  for _, name in ipairs({ "slurm_job_submit", "slurm_job_modify" }) do
    if type(rawget(G, name)) ~= "function" then
      return false, "the function " .. name .. " is missing"
    end
  end
  return true
end

-- Calls the script's function. Returns true and a number, true and the type of what isn't a number, or
-- false and an error.
local function call(number, modify, uid)
  current, lists = number, {}
  local description, partitions = description_of(number), records_of(number, "partitions")
  local name = modify and "slurm_job_modify" or "slurm_job_submit"
  local called = G[name]
  if type(called) ~= "function" then
    return false, "the function " .. name .. " is missing"
  end
  local ok, result
  if modify then
    ok, result = xpcall(called, error_text, description, record_of(number, "job", 1), partitions, uid)
  else
    ok, result = xpcall(called, error_text, description, partitions, uid)
  end
  if not ok then
    return false, result
  end
  local code = return_code(result)
  if not code then
    return true, type(result)
  end
  return true, code
end

-- Whether the text is a script at all: nothing, or why not.
local function check(source, path)
  local chunk, message = compile(source, "@" .. path)
  return not chunk and message or nil
end

return run, call, check
