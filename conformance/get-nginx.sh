#!/usr/bin/env bash
# Puts nginx into bin/, for the test that runs ds behind it: from the system's own package,
# without root and without installing anything. Where that cannot be done it says so, and the
# test is skipped.
set -euo pipefail
bin=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/bin
if command -v nginx >/dev/null || test -x "$bin/nginx"; then exit 0; fi
if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
  echo "nginx is not installed, and there is no apt-get to fetch it with: its test will be skipped"
  exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
get() { timeout 120 apt-get -q download nginx >get.log 2>&1; }
# The lists of packages may be missing, or older than the packages. Only root renews them.
if ! get && ! { test "$(id -u)" = 0 && timeout 120 apt-get -q update >update.log 2>&1 && get; }; then
  echo "nginx is not installed and its package cannot be fetched: its test will be skipped"
  tail -n 2 get.log
  exit 0
fi
dpkg -x nginx_*.deb files
if ! files/usr/sbin/nginx -v >run.log 2>&1; then
  echo "the nginx of this system's package does not run here: its test will be skipped"
  cat run.log
  exit 0
fi
mkdir -p "$bin"
cp files/usr/sbin/nginx "$bin/nginx.new.$$"
mv "$bin/nginx.new.$$" "$bin/nginx"
