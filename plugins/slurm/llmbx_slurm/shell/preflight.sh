#!/bin/sh
# usage: preflight.sh [REPOSITORY …]     checks one node before the framework starts
# Results are written to preflight-N.txt in the run folder, one per line: faults as bad=reason, notes as note=text,
# and what must be equal on all nodes as same.NAME=value.
file=preflight-${LLMBX_NODE_RANK:-0}.txt
# A failing redirection of a special builtin, such as ":", would end the shell.
{ true > "$file.part"; } 2> /dev/null || exit 11
put() { printf '%s\n' "$1" >> "$file.part"; }

check_cache() { # repository; if HF_HUB_OFFLINE is set, its files must be in the cache
  case ${HF_HUB_OFFLINE:-0} in 0 | '') return ;; esac
  cache=${HF_HUB_CACHE:-${HF_HOME:-$HOME/.cache/huggingface}/hub}
  folder=$cache/models--$(printf '%s' "$1" | sed 's#/#--#g')/snapshots
  for path in "$folder"/*/*; do [ -r "$path" ] && return; done
  put "bad=$1 is not readable in $cache, and HF_HUB_OFFLINE disables the download"
}

look() { # a program that checks the node, and its arguments
  "$@" >> "$file.part" 2> "$file.err" || put "note=not checked: $1 failed: $(tail -n 1 "$file.err")"
  rm -f "$file.err"
}

PROGRAMS
for repository; do check_cache "$repository"; done
mv -f "$file.part" "$file" || exit 11
