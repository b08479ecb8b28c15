#!/bin/sh
# A container image as a tar on standard output: a Python, its standard library, the shared libraries these need, and nothing else but
# the folder PACKAGES, if given, as /opt/packages.
# sh mkimage.sh PYTHON [PACKAGES] | docker import - NAME
set -eu
python=$1 packages=${2:-}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

ask() { "$python" -I -S -c "import os, sys, sysconfig; print($1)"; }
binary=$(ask 'os.path.realpath(getattr(sys, "_base_executable", sys.executable))')
stdlib=$(ask 'os.path.realpath(os.path.dirname(os.__file__))')
platlib=$(ask 'os.path.realpath(os.path.join(sys.base_exec_prefix, sys.platlibdir, f"python{sys.version_info.major}.{sys.version_info.minor}"))')

mkdir -p "$root/tmp" "$root/proc" "$root/dev" "$root/sys" "$root/etc" "$root/usr/bin"
chmod 1777 "$root/tmp"
echo 'nobody:x:65534:65534::/tmp:/bin/false' >"$root/etc/passwd"
echo 'nogroup:x:65534:' >"$root/etc/group"

copy() { # keeps the path, follows links
    mkdir -p "$root$(dirname "$1")"
    [ -e "$root$1" ] || cp -L "$1" "$root$1"
}
copy "$binary"
[ -e "$root/usr/bin/python3" ] || ln -s "$binary" "$root/usr/bin/python3"
printf '%s\n' "$stdlib" "$platlib" | sort -u | while read -r folder; do
    [ -d "$folder" ] || continue
    mkdir -p "$root$folder"
    tar -C "$folder" --exclude=./test --exclude=./idlelib --exclude=./turtledemo --exclude=./ensurepip --exclude=./tkinter --exclude='./lib-dynload/_tkinter*' \
        --exclude='./*/tests' --exclude='*.opt-?.pyc' --exclude=./site-packages --exclude=./dist-packages --exclude='./config-*' -c . | tar -C "$root$folder" -x
done
if [ -n "$packages" ]; then
    mkdir -p "$root/opt/packages"
    cp -RL "$packages/." "$root/opt/packages"
fi
find "$root" -name '*.so*' -type f -o -path "$root$binary" | while read -r file; do
    ldd "$file" 2>/dev/null | sed -n 's/^.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*ld[^ ]*\) .*/\1/p' || true
done | sort -u | while read -r library; do copy "$library"; done
chmod -R a+rX "$root"  # the programs' user is not the one who installed this Python
tar -C "$root" --owner=0 --group=0 --numeric-owner -c .
