#!/usr/bin/env bash
# Runs one scenario of `ds bench` against the servers of two commits in turn and
# prints the ratios: compare-commits.sh BASE [HEAD] [-- ds bench's arguments].
# Without HEAD the working tree is compared. The working tree's ds bench measures.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"

base=${1:?which commit is the base?}
shift
head=
if [ $# -gt 0 ] && [ "$1" != -- ]; then head=$1; shift; fi
if [ "${1:-}" = -- ]; then shift; fi
if [ $# -eq 0 ]; then set -- append -c 64; fi

work=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
  for tree in "$work"/tree-*; do git worktree remove --force "$tree" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT

# build NAME COMMIT: the binary of a commit, or of the working tree if it is empty.
build() {
  local tree=.
  if [ -n "$2" ]; then
    tree=$work/tree-$1
    git worktree add --quiet --detach "$tree" "$2"
  fi
  (cd "$tree" && go build -o "$work/ds-$1" ./cmd/ds)
}

# serve NAME: starts a server and waits for the line that says where its streams are.
serve() {
  DS_ADMIN_LISTEN=off "$work/ds-$1" serve --listen 127.0.0.1:0 --data-dir "$work/data-$1" >"$work/out-$1" 2>"$work/log-$1" &
  pids+=($!)
  for _ in $(seq 100); do
    url=$(sed -n 's/^streams *\(.*\)\/<path>$/\1/p' "$work/out-$1")
    if [ -n "$url" ]; then return; fi
    sleep 0.1
  done
  cat "$work/log-$1" >&2
  echo "the server of $1 does not start" >&2
  exit 1
}

build base "$base"
build head "$head"
build bench ""
serve base; base_url=$url
serve head; head_url=$url
echo "base $(git rev-parse --short "$base"), head $(if [ -n "$head" ]; then git rev-parse --short "$head"; else echo the working tree; fi)"
"$work/ds-bench" bench "$@" --url "$base_url" --pid "${pids[0]}" --compare "$head_url" --compare-pid "${pids[1]}" --sync-dir "$work"
