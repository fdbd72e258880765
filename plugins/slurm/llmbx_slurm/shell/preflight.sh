#!/bin/sh
# usage: preflight.sh GPUS TYPE [REPOSITORY …]     looks at one node before the framework starts there
# TYPE is h100 …, cpu (no GPU is looked at) or any (whatever it is called).
# What it finds is a line each in preflight-N.txt of the run folder: facts as name=value, faults as bad=reason.
gpus=$1 type=$2
shift 2
file=preflight-${LLMBX_NODE_RANK:-0}.txt
# A redirection that fails ends the shell where the command is a special one, such as ":".
{ true > "$file.part"; } 2> /dev/null || exit 11
put() { printf '%s\n' "$1" >> "$file.part"; }
ask() { nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2> /dev/null; }

look_at_gpus() {
  if ! command -v nvidia-smi > /dev/null; then
    put "note=nvidia-smi is not there: the GPUs were not looked at"
    return
  fi
  found=$(ask name,driver_version,memory.total,memory.free) || { put "bad=nvidia-smi fails: the driver is not up"; return; }
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
  ask clocks_throttle_reasons.active | while read -r reasons; do
    # slowdown by hardware 0x8, by heat 0x20 and 0x40, by the power brake 0x80 (NVML, clocks throttle reasons)
    case $reasons in 0x*) [ $((reasons & 0xe8)) -eq 0 ] || put "bad=GPU $number is throttled ($reasons)" ;; esac
    number=$((number + 1))
  done
}

look_at_cache() { # repository: without a network its files must lie in the cache
  case ${HF_HUB_OFFLINE:-0} in 0 | '') return ;; esac
  cache=${HF_HUB_CACHE:-${HF_HOME:-$HOME/.cache/huggingface}/hub}
  folder=$cache/models--$(printf '%s' "$1" | sed 's#/#--#g')/snapshots
  for path in "$folder"/*/*; do [ -r "$path" ] && return; done
  put "bad=$1 cannot be read from $cache, and HF_HUB_OFFLINE forbids to fetch it"
}

[ "$type" = cpu ] || look_at_gpus
for repository; do look_at_cache "$repository"; done
mv -f "$file.part" "$file" || exit 11
