-- Slurm's burst-buffer plug-in (BurstBufferType=burst_buffer/lua) for Tidepool: checks the `#KV` lines of a batch
-- script when it is submitted, and gives the job what they say, as options of kvctl run:
--
--   #KV memory 50%                        of each node
--   #KV nvm 200GiB                        of each node's own disk, in the folder that the prolog makes
--   #KV stage_in /scratch/me/in:inputs    may be repeated
--   #KV stage_out results:/scratch/me/out may be repeated
--   ...
--   kvctl run $TIDEPOOL_RUN_OPTIONS -- srun ./simulate
--
-- Beside slurm.conf, with burst_buffer.conf and tidepool.conf. It moves nothing by itself: when Slurm stages a job
-- in, the job has no nodes yet, and when it stages out, none any more. So staging is part of the job, where it is fast.

local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "/etc/slurm"

local function local_disk()
  local file = io.open(folder .. "/tidepool.conf")
  local disk = "/local"
  if file then
    for line in file:lines() do disk = line:match("^local_disk=(%S+)$") or disk end
    file:close()
  end
  return disk
end

local function is_size(text)
  return text:match("^%d+%.?%d*[KMGT]?i?B?$") ~= nil and text:match("^%d") ~= nil
end

local function is_share(text)
  local percent = tonumber(text:match("^(%d+%.?%d*)%%$") or "")
  return percent ~= nil and percent > 0 and percent <= 100
end

local function is_name(text)
  return #text <= 200 and text:match("^[%w%._/%-]+$") ~= nil
end

-- Options are words of a shell: whatever a shell would take apart is refused.
local function is_path(text)
  return text:match("^/[%w%._/%+,@:=%-]*$") ~= nil
end

-- Each returns its options, or nil and what is wrong.
local directives = {
  memory = function(value)
    if not (is_size(value) or is_share(value)) then return nil, "is no size: 40GiB, or 50%" end
    return "--memory " .. value
  end,
  nvm = function(value, job_id)
    if not is_size(value) then return nil, "is no size: 200GiB" end
    return string.format("--nvm-dir %s/tidepool-%s --nvm-size %s", local_disk(), job_id, value)
  end,
  stage_in = function(value)
    local path, name = value:match("^(.*):([^:]*)$")
    if not path or not is_path(path) or not is_name(name) then
      return nil, "is not DIRECTORY:NAMESPACE, with an absolute path of letters, digits and ._/+,@:=-"
    end
    return "--stage-in " .. value
  end,
  stage_out = function(value)
    local name, path = value:match("^([^:]*):(.*)$")
    if not name or not is_path(path) or not is_name(name) then
      return nil, "is not NAMESPACE:DIRECTORY, with an absolute path of letters, digits and ._/+,@:=-"
    end
    return "--stage-out " .. value
  end,
}
local once = { memory = true, nvm = true }

-- The options that a script's #KV lines ask for, or nil and what is wrong with which line.
local function options_of(script, job_id)
  local file, failure = io.open(script)
  if not file then return nil, failure end
  local options, seen, number = {}, {}, 0
  for line in file:lines() do
    number = number + 1
    local text = line:match("^#KV%s+(.*)$")
    if text or line:match("^#KV$") then
      local name, value = (text or ""):match("^(%S+)%s+(%S+)%s*$")
      local wrong
      if not name then
        wrong = "is not '#KV NAME VALUE'"
      elseif not directives[name] then
        wrong = "'" .. name .. "' is none of memory, nvm, stage_in, stage_out"
      elseif once[name] and seen[name] then
        wrong = "'" .. name .. "' stands there twice"
      else
        local option, reason = directives[name](value, job_id)
        if option then options[#options + 1] = option else wrong = "'" .. value .. "' " .. reason end
        seen[name] = true
      end
      if wrong then
        file:close()
        return nil, string.format("line %d: %s: %s", number, line, wrong)
      end
    end
  end
  file:close()
  return table.concat(options, " ")
end

-- At submission: an error refuses the job, with this text.
function slurm_bb_job_process(job_script)
  local options, wrong = options_of(job_script, "JOB")
  if not options then
    slurm.log_info("tidepool: %s", wrong)
    return slurm.ERROR, wrong
  end
  return slurm.SUCCESS
end

-- Before the job begins: variables for it.
function slurm_bb_paths(job_id, job_script, path_file)
  local options, wrong = options_of(job_script, job_id)
  if not options then return slurm.ERROR, wrong end
  local file, failure = io.open(path_file, "w")
  if not file then return slurm.ERROR, failure end
  file:write("TIDEPOOL_RUN_OPTIONS=" .. options .. "\n")
  file:close()
  return slurm.SUCCESS
end

local function nothing() return slurm.SUCCESS end
slurm_bb_setup = nothing
slurm_bb_data_in = nothing
slurm_bb_test_data_in = nothing
slurm_bb_real_size = nothing
slurm_bb_pre_run = nothing
slurm_bb_post_run = nothing
slurm_bb_data_out = nothing
slurm_bb_test_data_out = nothing
slurm_bb_job_teardown = nothing
function slurm_bb_pools() return slurm.SUCCESS, '{"pools":[]}' end
function slurm_bb_get_status() return slurm.SUCCESS, "tidepool: see kvctl status, in the job\n" end
