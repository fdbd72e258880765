#!/bin/sh
# usage: preflight.sh GPUS TYPE [REPOSITORY …]     checks one node before the framework starts
# TYPE is a GPU type (h100 …), cpu (GPUs are not checked) or any (the GPU name is not checked).
# Results are written to preflight-N.txt in the run folder, one per line: facts as name=value, faults as bad=reason.
gpus=$1 type=$2
shift 2
file=preflight-${LLMBX_NODE_RANK:-0}.txt
# A failing redirection of a special builtin, such as ":", would end the shell.
{ true > "$file.part"; } 2> /dev/null || exit 11
put() { printf '%s\n' "$1" >> "$file.part"; }
query() { nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2> /dev/null; }

check_gpus() {
  if ! command -v nvidia-smi > /dev/null; then
    put "note=nvidia-smi not found: the GPUs were not checked"
    return
  fi
  found=$(query name,driver_version,memory.total,memory.free) || { put "bad=nvidia-smi failed: the driver is not running"; return; }
  count=$(printf '%s\n' "$found" | grep -c .)
  put "gpus=$count"
  [ "$count" -ge "$gpus" ] || put "bad=$count of $gpus GPUs"
  put "driver=$(printf '%s\n' "$found" | head -n 1 | cut -d, -f2 | tr -d ' ')"
  printf '%s\n' "$found" | awk -F' *, *' -v type="$type" '
    { name = toupper($1); total = $3; free = $4 }
    { gsub(/[^A-Z0-9]+/, " ", name) }
    type != "any" && index(" " name " ", " " toupper(type) " ") == 0 { print "bad=GPU " NR - 1 " is " $1 ", not " type }
    total ~ /^[0-9]+$/ && free ~ /^[0-9]+$/ && free < total * 0.9 {
      print "bad=GPU " NR - 1 " has only " free " of " total " MiB free"
    }' >> "$file.part"
  number=0
  query clocks_throttle_reasons.active | while read -r reasons; do
    # 0x8 hardware slowdown, 0x20 and 0x40 thermal slowdown, 0x80 power brake (NVML, clocks throttle reasons)
    case $reasons in 0x*) [ $((reasons & 0xe8)) -eq 0 ] || put "bad=GPU $number is throttled ($reasons)" ;; esac
    number=$((number + 1))
  done
}

check_cache() { # repository; if HF_HUB_OFFLINE is set, its files must be in the cache
  case ${HF_HUB_OFFLINE:-0} in 0 | '') return ;; esac
  cache=${HF_HUB_CACHE:-${HF_HOME:-$HOME/.cache/huggingface}/hub}
  folder=$cache/models--$(printf '%s' "$1" | sed 's#/#--#g')/snapshots
  for path in "$folder"/*/*; do [ -r "$path" ] && return; done
  put "bad=$1 is not readable in $cache, and HF_HUB_OFFLINE disables the download"
}

[ "$type" = cpu ] || check_gpus
for repository; do check_cache "$repository"; done
mv -f "$file.part" "$file" || exit 11
