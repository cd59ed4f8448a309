#!/bin/sh
# The README's two commands, word for word, on a Debian 12 that holds git and make and nothing else, so that they build
# without CUDA: as a user who cannot become root and gets the one line that somebody with root has to type; and set-up as root.
#   tests/bare_debian_test.sh FOLDER   works in FOLDER/bare_debian, which is replaced; 6 GB, and most of an hour on 2 cores
#   TRIREME_BARE_CCACHE=CACHE          a folder of ccache to begin with, which stays as it is: what it holds is not compiled
#                                      again. It must be filled with base_dir above the sources and hash_dir = false
# Ends with 77 and the reason where no such system can be made. What a command that went wrong said is all in
# FOLDER/bare_debian.log. Mirror, proxy and certificates are those of this machine.
set -u
here=$(cd "$(dirname "$0")" && pwd)
source=$(dirname "$here")
release=bookworm

skip() {
  echo "bare_debian: skipped: $*"
  exit 77
}
[ $# -eq 1 ] || { echo "bare_debian: the folder to work in is missing" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || skip "needs root"
command -v debootstrap > /dev/null || skip "needs debootstrap"
git -C "$source" rev-parse -q --verify HEAD > /dev/null || skip "needs a git checkout"

# Mounts and processes of a namespace end with it, however this script ends.
if [ "${TRIREME_BARE_INSIDE:-}" != yes ]; then
  unshare --mount --pid --fork --kill-child true 2> /dev/null || skip "may not make mount and process namespaces"
  exec env TRIREME_BARE_INSIDE=yes unshare --mount --pid --fork --kill-child "$0" "$@"
fi

mkdir -p "$1" && work=$(cd "$1" && pwd)/bare_debian || exit 1
wrong() {
  if [ -f "$work/said" ]; then
    cp "$work/said" "$work.log"
    tail -n 40 "$work/said"
    echo "bare_debian: all of it is in $work.log"
  fi
  echo "bare_debian: WRONG: $*"
  exit 1
}
unmounted() { umount "$work/$1/dev/shm" "$work/$1/dev/pts" "$work/$1/sys" "$work/$1/proc"; }
leave() {
  for system in user root; do unmounted $system 2> /dev/null; done
  rm -rf --one-file-system "$work"
}
rm -rf --one-file-system "$work"
mkdir -p "$work" || exit 1
trap leave EXIT
trap 'exit 1' HUP INT TERM

# apt-get is called by its path: tests/run.sh puts one first that refuses.
mirror=$(/usr/bin/apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2> /dev/null |
  sed -n "s/ $release main\$//p" | head -n 1)
[ "$mirror" ] || skip "apt's sources name no mirror of $release"
/usr/lib/apt/apt-helper download-file "$mirror/dists/$release/InRelease" "$work/InRelease" > /dev/null 2>&1 ||
  skip "the mirror of apt's sources does not answer"

commands=$(sed -n '/^## Two commands/,/^## [^T]/s/^ *\(make [a-z]*\) *\(#.*\)\{0,1\}$/\1/p' "$source/README.md")
[ "$(echo "$commands" | wc -l)" -eq 2 ] || wrong "the README's two commands are not found: $commands"
first=$(echo "$commands" | head -n 1)
second=$(echo "$commands" | tail -n 1)

say() { echo "bare_debian: $(date +%H:%M:%S) $*"; }

say "a bare $release"
debootstrap --variant=minbase --include=git,make "$release" "$work/user" "$mirror" > "$work/said" 2>&1 || wrong "debootstrap failed"
cp -L /etc/resolv.conf /etc/hosts "$work/user/etc/"
apt-config dump | grep -E '^Acquire::(http|https|Check-)' > "$work/user/etc/apt/apt.conf.d/99this-machine"
case "$mirror$(cat "$work/user/etc/apt/apt.conf.d/99this-machine")" in
  *https*) mkdir -p "$work/user/etc/ssl" && cp -RL /etc/ssl/certs "$work/user/etc/ssl/" ;;
esac
# The tree as it stands, with what is not committed yet.
git clone -q --bare --no-hardlinks "$source" "$work/user/srv/trireme.git" > "$work/said" 2>&1 || wrong "git clone failed"
tree() { GIT_DIR=$work/user/srv/trireme.git GIT_WORK_TREE=$source git -c core.bare=false -c user.name=test -c user.email=test@localhost "$@"; }
tree add -A > "$work/said" 2>&1 || wrong "git add failed"
tree commit -q --allow-empty -m "the tree as it stands" > "$work/said" 2>&1 || wrong "git commit failed"
chroot "$work/user" useradd -m -s /bin/sh newcomer || wrong "useradd failed"
cp -a "$work/user" "$work/root" || wrong "no space for a second system"
chroot "$work/user" chown -R newcomer: /srv/trireme.git
cache_settings=
if [ "${TRIREME_BARE_CCACHE:-}" ]; then
  cache=$work/user/home/newcomer/.cache/ccache
  mkdir -p "$cache"
  cp -R "$TRIREME_BARE_CCACHE"/[0-9a-f] "$cache" 2> /dev/null # others may use it, so that files come and go
  [ -d "$cache/0" ] || wrong "TRIREME_BARE_CCACHE=$TRIREME_BARE_CCACHE is no folder of ccache"
  chroot "$work/user" chown -R newcomer: /home/newcomer/.cache
  cache_settings="CCACHE_BASEDIR=/home/newcomer CCACHE_NOHASHDIR=1"
  for name in LANG LC_ALL LC_CTYPE LC_MESSAGES; do # part of ccache's keys
    eval "value=\${$name-}"
    [ "$value" ] && cache_settings="$cache_settings $name=$value"
  done
fi

# inside SYSTEM USER LIMIT COMMAND
inside() {
  system=$work/$1
  case $2 in root) home=/root ;; *) home=/home/$2 ;; esac
  timeout -k 10 "$3" chroot --userspec="$2:$2" "$system" /usr/bin/env -i HOME="$home" USER="$2" SHELL=/bin/sh \
    PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin ${http_proxy:+http_proxy="$http_proxy"} \
    ${https_proxy:+https_proxy="$https_proxy"} $cache_settings sh -c "cd /home/newcomer && { [ ! -d trireme ] || cd trireme; } && $4" \
    > "$work/said" 2>&1 < /dev/null
}
# What every system has that was booted or is a container.
mounted() {
  mkdir -p "$work/$1/dev/pts" "$work/$1/dev/shm" &&
    mount -t proc proc "$work/$1/proc" && mount -t sysfs -o ro sysfs "$work/$1/sys" &&
    mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts "$work/$1/dev/pts" &&
    mount -t tmpfs tmpfs "$work/$1/dev/shm" || wrong "mounts failed"
}

mounted user
inside user newcomer 300 "git clone -q /srv/trireme.git" || wrong "a user's git clone failed"
say "$first as a user"
inside user newcomer 600 "$first" && wrong "$first succeeded without packages"
[ "$(grep -c "apt-get" "$work/said")" -eq 1 ] || wrong "a user does not get one line to type"
line=$(sed -n 's/^  \(apt-get .*\)$/\1/p' "$work/said")
say "root types: $line"
inside user root 1800 "$line" || wrong "root's line failed: $line"
say "$first as a user, again"
inside user newcomer 5400 "$first" || wrong "$first as a user failed after: $line"
grep -q "validation loss [0-9]" "$work/said" || wrong "no validation loss of $first"
grep -q "^build/trireme generate" "$work/said" || wrong "no sample of $first"
say "$second as a user"
inside user newcomer 7200 "$second" || wrong "$second failed"
tail -n 1 "$work/said" | grep -Eq "^[1-9][0-9]* passed, 0 failed$" || wrong "$second ends with no count of tests"
tests=$(tail -n 1 "$work/said")

mounted root
cp -a "$work"/user/var/cache/apt/archives/*.deb "$work/root/var/cache/apt/archives/"
inside root root 300 "git clone -q /srv/trireme.git" || wrong "root's git clone failed"
say "set-up as root, which installs the packages, too"
inside root root 1800 "make setup" || wrong "make setup as root failed"
grep -q "setup: installing with apt: .*libgmock-dev" "$work/said" || wrong "make setup as root installed nothing"
say "good: $tests"
