#!/bin/sh
# What a user does with the bundle, and with a bundle that cannot be set up. Runs in a small system: see tests/system/bundle.
set -eu
cd

fail() {
  echo "FAILED: $1" >&2
  exit 1
}
expect() {  # expect TEXT COMMAND...: all that the command prints.
  wanted=$1
  shift
  seen=$("$@") || fail "$*: exit code $?"
  [ "$seen" = "$wanted" ] || fail "$*: '$seen' instead of '$wanted'"
}
refused() {  # refused TEXT COMMAND...: the command fails, and its message has the text.
  wanted=$1
  shift
  if seen=$("$@" 2>&1); then fail "$*: does not fail: $seen"; fi
  case $seen in
    *"$wanted"*) echo "   $seen" ;;
    *) fail "$*: '$seen' instead of '... $wanted ...'" ;;
  esac
}
nothing_left() {  # nothing_left FOLDER: no part of a set-up is left in it.
  for file in "$1"/.setup.*; do [ ! -e "$file" ] || fail "$file is left"; done
}

tour() {  # tour FOLDER: by the programs of the folder.
  PATH=$1/bin:$PATH
  export TIDEPOOL_CLUSTER="$HOME/cluster.json"
  kvctl start --local 3 --memory 256MiB -- --wait block
  kvctl put default greeting hello
  expect hello kvctl get default greeting
  expect 1 kvctl incr default visits
  expect 2 kvctl incr default visits
  mkdir -p data/run1
  echo "temperature 291" >data/run1/a.txt
  dd if=/dev/urandom of=data/run1/b bs=1024 count=3000 2>/dev/null
  kvctl stage in data inputs
  expect run1/a.txt kvctl keys inputs 'run1/*.txt'
  kvctl stage out inputs data.out
  diff -r data data.out
  kvctl status
  seen=$(kvctl doctor) || fail "doctor: $seen"
  case $seen in *"0 problems"*) ;; *) fail "doctor: $seen" ;; esac
  expect "hello 1" tidepool-python -c '
import tidepool
client = tidepool.connect()
map = client.create("python")
map["greeting"] = "hello"
print(map["greeting"].decode() if isinstance(map["greeting"], bytes) else map["greeting"], len(map))
'
  kvctl stop --discard
  rm -rf data data.out
}

grep -q '^CapEff:[[:space:]]*0*$' /proc/self/status || fail "this user has capabilities"
mkdir unpacked
(cd unpacked && tar xJf ../tidepool.tar.xz)

echo "-- before its set-up: the programs that srun and ssh start, by their own path"
cp -R unpacked/tidepool first
env -i "$HOME/first/libexec/kvd" --version
rm -rf first

echo "-- messages"
cp -R unpacked/tidepool readonly
chmod a-w readonly readonly/libexec
refused "the owner of $HOME/readonly must start $HOME/readonly/setup once" readonly/bin/kvctl version
refused "the owner of $HOME/readonly must start" readonly/libexec/kvd --version
chmod u+w readonly readonly/libexec
readonly/setup
chmod a-w readonly/libexec
readonly/bin/kvd --version
chmod u+w readonly/libexec
mv readonly moved
chmod a-w moved moved/libexec
refused "was set up at $HOME/readonly and now lies at $HOME/moved" moved/bin/kvd --version
chmod u+w moved moved/libexec
refused "is another folder" moved/setup "$HOME/unpacked/tidepool"
refused "is no absolute path" moved/setup unpacked
refused "usage" moved/setup a b

long=$HOME
name=$(printf '%0200d' 0)
for _ in 1 2 3 4 5; do long=$long/$name; done
mkdir -p "$long"
mv moved "$long/moved"
refused "the limit is" "$long/moved/bin/kvd" --version
nothing_left "$long/moved"
rm -rf "${HOME:?}/$name"

cp -R unpacked/tidepool /noexec/
refused "mounted noexec" sh /noexec/tidepool/bin/kvctl version
nothing_left /noexec/tidepool
cp -R unpacked/tidepool /full/
refused "is its file system full" /full/tidepool/bin/kvctl version
nothing_left /full/tidepool

echo "-- eight first starts at once"
cp -R unpacked/tidepool at-once
started=
for _ in 1 2 3 4 5 6 7 8; do
  at-once/bin/kvd --version >>versions &
  started="$started $!"
done
for pid in $started; do wait "$pid" || fail "a first start of eight failed"; done
expect 1 sh -c "sort -u versions | wc -l | tr -d ' '"
expect 8 sh -c "wc -l <versions | tr -d ' '"
nothing_left at-once
rm -rf at-once

echo "-- the tour"
# As modules of a cluster set it; without libc.so.6, which the shell of this system would take, too.
mkdir nonsense
for file in libstdc++.so.6 libucp.so.0 libgrpc++.so.1.51 libssl.so.3; do echo nonsense >"nonsense/$file"; done
(LD_LIBRARY_PATH=$HOME/nonsense tour "$HOME/unpacked/tidepool")
echo "-- moved, below a name with a blank, by a link, and by a second path that all nodes know"
mv unpacked "moved here"
ln -s "moved here/tidepool" link
ln -s "../moved here/tidepool/bin/kvctl" nonsense/kvctl
nonsense/kvctl version
(tour "$HOME/moved here/tidepool")
link/setup "$HOME/link"
expect "$HOME/link" cat link/libexec/place
(tour "$HOME/link")
env -i "$HOME/link/libexec/kvd" --version
expect "$HOME/link" cat "moved here/tidepool/libexec/place"

echo "-- another host, by ssh"
cat >ssh <<'END'
#!/bin/sh
shift
exec env -i PATH=/bin:/usr/bin /bin/sh -c "$*"
END
chmod 755 ssh
export TIDEPOOL_KVCTL_SSH="$HOME/ssh"
link/bin/kvctl start --hosts elsewhere --cluster "$HOME/by-ssh.json" --memory 64MiB -- --interface lo --wait block
link/bin/kvctl put default greeting hello --cluster "$HOME/by-ssh.json"
expect hello link/bin/kvctl get default greeting --cluster "$HOME/by-ssh.json"
for process in /proc/[0-9]*; do
  case $(readlink "$process/exe" || true) in *libexec/kvd) tr '\0' ' ' <"$process/cmdline"; echo ;; esac
done >daemons
grep -q "^$HOME/link/libexec/kvd " daemons || fail "the daemon was started as $(cat daemons)"
link/bin/kvctl stop --discard --cluster "$HOME/by-ssh.json"
expect 0 sh -c "ls -l /proc/[0-9]*/exe 2>/dev/null | grep -c libexec/kvd || true"

echo "-- a configuration of OpenSSL that names a module of another build"
echo nonsense >nonsense/module.so
cat >openssl.cnf <<END
openssl_conf = init
[init]
providers = all
[all]
default = default_section
other = other_section
[default_section]
activate = 1
[other_section]
module = $HOME/nonsense/module.so
activate = 1
END
export OPENSSL_CONF="$HOME/openssl.cnf" TIDEPOOL_CLUSTER="$HOME/tls.json"
link/bin/kvctl start --local --memory 64MiB -- --tls --wait block
link/bin/kvctl put default greeting hello
expect hello link/bin/kvctl get default greeting
link/bin/kvctl stop --discard
