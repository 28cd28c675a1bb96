# shellcheck shell=bash
# Small systems to test in, made by mmdebstrap, for the scripts beside this file. To be sourced.
#
# All that runs in a system is in namespaces of its own, which end with the script: no process and no mount is left.

# system_needs PROGRAM...: ends with 77, the code of a skipped test, without root or one of the programs.
system_needs() {
  local program
  [ "$(id -u)" -eq 0 ] || { echo "$0: needs root" >&2; exit 77; }
  for program in mmdebstrap unshare setpriv "$@"; do
    command -v "$program" >/dev/null || { echo "$0: apt-get install $program" >&2; exit 77; }
  done
}

# system_folder DIR: sets `work` to DIR, or without DIR to a temporary folder that the end of the script removes.
system_folder() {
  work=$1
  if [ -n "$work" ]; then
    mkdir -p "$work"
  else
    work=$(mktemp -d "${TMPDIR:-/tmp}/tidepool-system.XXXXXX")
    trap 'status=$?; rm -rf --one-file-system "$work"; exit $status' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
  fi
  work=$(readlink -f "$work")
  chmod 755 "$work"
}

# system_make NAME SUITE OPTION...: a system in $work/NAME, with a plain user; kept systems are used again.
system_make() {
  local dir=$work/$1 suite=$2 mirror
  shift 2
  [ ! -e "$dir/home/user" ] || return 0
  rm -rf --one-file-system "$dir"
  # The mirror that this machine uses.
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk '$2 == "bookworm" && !seen++ {print $1}')
  mmdebstrap --quiet --mode=root "$@" "$suite" "$dir" "${mirror:-http://deb.debian.org/debian}"
  mkdir -p "$dir"/{home,etc,proc,sys,dev,tmp}
  chmod 1777 "$dir/tmp"
  echo 'user:x:1000:1000::/home/user:/bin/sh' >>"$dir/etc/passwd"
  echo 'user:x:1000:' >>"$dir/etc/group"
  mkdir "$dir/home/user"
  chown 1000:1000 "$dir/home/user"
}

# system_run NAME BEFORE COMMAND...: runs the command in the system as its plain user, who has no capability and gets none.
# BEFORE: shell text for root, before; $1 is the system's folder. UCX needs /sys. There is no network but loopback.
system_run() {
  local dir=$work/$1 before=$2
  shift 2
  # shellcheck disable=SC2016
  unshare --mount --pid --net --ipc --uts --fork --kill-child bash -euc '
    mount --make-rprivate /
    mount --rbind /dev "$1/dev"
    mount --rbind /sys "$1/sys"
    mount -t proc proc "$1/proc"
    hostname tidepool-system
    ip link set lo up
    eval "$2"
    dir=$1
    shift 2
    # Without exec: the change of user would clear the death signal that unshare gives this bash.
    status=0
    env -i HOME=/home/user LC_ALL=C.UTF-8 PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      setpriv --no-new-privs --inh-caps=-all chroot --userspec=1000:1000 --groups=1000 "$dir" "$@" || status=$?
    exit $status
  ' system "$dir" "$before" "$@" </dev/null
}
