# The part of deploy/quickstart, which sources this file, that looks at the machine and builds.

build_cpu_s=660       # Of preset default, all of it, on one core of 2023.
build_steps=202       # Of ninja.
build_mib=900         # What build/default and build/install take.
compile_mib=1200      # What the largest compilation takes.

# The tools, the packages, and the checkout.

fail() { echo "quickstart: $*" >&2; explained=true; exit "${code:-1}"; }
free_mib() { df -Pm "$1" | awk 'NR == 2 {print $4}'; }

check_source() {  # Before anything takes time.
  [ -e "$source" ] || code=2 fail "there is no $source: pass a directory that is there"
  [ -d "$source" ] || code=2 fail "$source is no directory: pass the directory that it lies in"
  local bad
  # What this user cannot read could not be compared either.
  bad=$(find "$source" \( \( -type f -o -type d \) ! -readable -o -type d ! -executable \) -print -prune -quit 2>/dev/null) || true
  [ -z "$bad" ] || code=2 fail "$bad cannot be read by $(id -un): pass another directory"
  bad=$(find "$source" ! -type f ! -type d ! -type l -print -quit) || true
  [ -z "$bad" ] || code=2 fail "$bad is neither a file, a directory nor a link: pass another directory"
  local own
  for own in "$PWD/build" "$work"; do
    case $own/ in "${source%/}"/*)
      code=2 fail "$source has quickstart's own $own in it, which changes: pass another directory" ;;
    esac
  done
}

# Holds build/quickstart.lock until cleanup removes it. File systems without locks go without.
lock_build() {
  local status told=false
  until $held; do
    mkdir -p build 2>/dev/null && exec 9>>build/quickstart.lock ||
      fail "cannot write to $PWD/build: use a copy of the checkout that belongs to $(id -un)"
    status=0
    flock -n 9 || status=$?
    if [ "$status" -eq 1 ]; then
      $told || echo "quickstart: another one is at work in $PWD; waiting until it has ended"
      told=true
      flock 9
    fi
    # The file of a quickstart that has ended meanwhile protects nothing.
    if [ build/quickstart.lock -ef /dev/fd/9 ]; then held=true; fi
  done
  local bad
  bad=$(find build ! -type l ! -writable -print -quit 2>/dev/null) || true
  [ -z "$bad" ] || fail "$PWD/$bad cannot be written by $(id -un): remove it, or use a copy of the checkout"
}

install_packages() {
  if ! $packages || ! command -v dpkg-query >/dev/null; then return 0; fi
  local plan answer minutes
  plan=$(deploy/install-packages --plan)
  [ -n "$plan" ] || return 0
  [ "$(id -u)" -eq 0 ] ||
    fail "missing packages ($plan): have root call deploy/install-packages, then call quickstart again"
  minutes=$((1 + build_cpu_s / $(jobs) / 60))
  echo "To be installed by apt: $plan. deploy/packages-build.txt names them."
  echo "That takes 1 to 3 minutes, and the build then about $minutes."
  if ! $yes && [ -t 0 ] && [ -t 1 ]; then
    read -r -p 'Install them? [yes/no] ' answer || answer=no
    [[ $answer =~ ^[Yy]([Ee][Ss])?$ ]] || fail "nothing was installed: call it again, or deploy/install-packages"
  fi
  if ! deploy/install-packages; then explained=true; exit 1; fi
}

check_tools() {
  local compiler=${CXX:-c++} tool
  for tool in cmake ninja pkg-config $compiler; do
    command -v "$tool" >/dev/null ||
      fail "no $tool in PATH: install it (deploy/install-packages does on Debian 12)" \
        "or add its directory to PATH"
  done
  printf '#include <version>\nstatic_assert(__cplusplus > 201703L);\nint main() {}\n' >"$work/probe.cc"
  $compiler -std=c++20 "$work/probe.cc" -o "$work/probe" 2>"$work/probe.log" ||
    fail "$compiler compiles no C++20 program ($(grep -m1 error "$work/probe.log")): set CXX to g++ 12 or later"
}

# The least of what the machine, the control groups, and ulimit -v leave.
available_mib() {
  local limits folder max
  limits=$(awk '/^MemAvailable:/ {print int($2 / 1024)}' /proc/meminfo)
  max=$(ulimit -v)
  [ "$max" = unlimited ] || limits+=" $((max / 1024))"
  folder=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
  while [ "${folder#/sys/fs/cgroup}" != "$folder" ]; do
    max=$(cat "$folder/memory.max" 2>/dev/null || echo max)
    [ "$max" = max ] ||
      limits+=" $(((max - $(awk '/^(anon|shmem|kernel) / {sum += $2} END {print sum}' "$folder/memory.stat")) >> 20))"
    folder=${folder%/*}
  done
  printf '%s\n' $limits | sort -n | head -n 1
}
# Compilations at a time.
jobs() {
  local most
  most=$(($(available_mib) / compile_mib))
  [ "$most" -gt 1 ] || most=1
  most=$((most < $(nproc) ? most : $(nproc)))
  echo "${CMAKE_BUILD_PARALLEL_LEVEL:-$most}"
}

check_room() {
  local mib
  mib=$(available_mib)
  [ "$mib" -ge $compile_mib ] || fail "$mib MiB of memory are free, a compilation takes $compile_mib:" \
    "end other programs, or raise the limit (ulimit -v, the job's memory)"
  local taken=0
  [ ! -d build/default ] || taken=$(du -sm build/default | cut -f1)
  mib=$(free_mib build)
  [ "$((mib + taken))" -ge $build_mib ] || fail "the disk of $PWD has $mib MiB free, the build takes $build_mib:" \
    "free some, or use a copy of the checkout on another disk"
}

# True if build/default was configured in this place with these options.
is_configured_here() {
  local line
  for line in "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "CMAKE_CACHEFILE_DIR:INTERNAL=$PWD/build/default" \
    CMAKE_GENERATOR:INTERNAL=Ninja TIDEPOOL_SANITIZE:STRING=; do
    grep -qsxF "$line" build/default/CMakeCache.txt || return 1
  done
}

configure() {
  local log=$work/configure.log
  if [ -e build/default ] && is_configured_here && cmake --preset default >"$log" 2>&1; then return 0; fi
  if [ -e build/default ]; then
    echo "build/default is of another place, of other options, or damaged: making it anew"
    rm -rf build/default
  fi
  ! cmake --preset default >"$log" 2>&1 || return 0
  explain_failure "$log"
  grep -A 6 -m 2 'CMake Error' "$log" >&2 || tail -n 5 "$log" >&2
  fail "the configuration failed: the lines above name what is missing; deploy/install-packages installs it on Debian 12"
}

# Fails with the reason that a log gives, if it is a full disk or too little memory.
explain_failure() {
  if grep -q 'No space left on device' "$1" || [ "$(free_mib build)" -lt 5 ]; then
    fail "the disk of $PWD is full: free some $build_mib MiB, or use a copy of the checkout on another disk"
  elif grep -qE 'Killed|out of memory|Cannot allocate memory|virtual memory exhausted|bad_alloc' "$1"; then
    fail "a compilation found too little memory: CMAKE_BUILD_PARALLEL_LEVEL=1 deploy/quickstart takes less"
  fi
}

# Shows how far ninja is: each step on a terminal, each tenth elsewhere.
show_progress() {
  awk -v terminal="$([ -t 1 ] && echo 1)" '
    match($0, /^\[[0-9]+\/[0-9]+\]/) {
      split(substr($0, 2, RLENGTH - 2), part, "/")
      if (terminal) printf "\r\033[K%s", substr($0, 1, 78)
      else if (int(10 * part[1] / part[2]) > tenth) printf "%d of %d steps\n", part[1], part[2]
      tenth = int(10 * part[1] / part[2]); fflush()
    }
    END {if (terminal) printf "\r\033[K"}'
}

build() {
  local log=$work/build.log left minutes
  export CMAKE_BUILD_PARALLEL_LEVEL
  CMAKE_BUILD_PARALLEL_LEVEL=$(jobs)
  configure
  left=$(ninja -C build/default -n | grep -c '^\[') || true
  minutes=$(((left * build_cpu_s / build_steps / CMAKE_BUILD_PARALLEL_LEVEL + 59) / 60))
  echo "build: $left steps, $CMAKE_BUILD_PARALLEL_LEVEL at a time, at most $minutes minutes on an idle machine"
  if ! cmake --build build/default 2>&1 | tee "$log" | show_progress; then
    explain_failure "$log"
    sed -n '/^FAILED/,$p' "$log" | head -n 20 >&2
    fail "the build failed, see above: if build/default is old, remove it and call it again"
  fi
  installing=true
  rm -rf build/install
  if ! cmake --install build/default --prefix "$PWD/build/install" >"$work/install.log" 2>&1; then
    explain_failure "$work/install.log"
    fail "cmake --install build/default failed: $(tail -n 1 "$work/install.log")"
  fi
  installing=false
}
