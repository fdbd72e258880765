# Functions of every run script: enter and leave phases, and write exit.json.
phase='' phases='' rank=null node=null signal=null reason=null started=0 begun=0 entered=0 ooms=null

say() { printf '%(%Y-%m-%dT%H:%M:%S%z)T llmbx: %s\n' -1 "$*"; }
now() { date +%s.%3N; }

since_boot() { # seconds by a clock that is never set; without /proc those of this shell
  local seconds=$SECONDS
  { read -r seconds _ < /proc/uptime; } 2> /dev/null
  echo "$seconds"
}

before() { # whole seconds by that clock
  local seconds
  seconds=$(since_boot)
  ((${seconds%.*} < $1))
}

boot_id() {
  local id=''
  { read -r id < /proc/sys/kernel/random/boot_id; } 2> /dev/null
  echo "$id"
}

json() { # text -> JSON string
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//[[:cntrl:]]/ }"
}

oom_kills() { # number of processes that the kernel has killed because of memory since boot
  local key value found=null
  while read -r key value; do [ "$key" = oom_kill ] && found=$value; done 2> /dev/null < /proc/vmstat
  echo "$found"
}

begin() {
  rm -f exit.json
  # reserve space for exit.json, so that it can be written even if the disk is full
  printf '%4096s\n' '' > .exit.json || { say "cannot write in $PWD"; exit 1; }
  say "starts as $job_id on $HOSTNAME"
  # llmbx creates this file to abandon a run and then searches for the line above, so one of the two sees the other
  [ ! -e given-up ] || { say "this run was abandoned before it started"; exit 0; }
  started=$(now) begun=$(since_boot) ooms=$(oom_kills)
  # a child that gets a signal before it has reset these traps must not act for the script
  trap 'last=$?; [ "$BASHPID" != "$$" ] || finish "$last"' EXIT
  trap '[ "$BASHPID" != "$$" ] || forward HUP 1' HUP
  trap '[ "$BASHPID" != "$$" ] || forward INT 2' INT
  trap '[ "$BASHPID" != "$$" ] || forward TERM 15' TERM
}

finish() { # exit code
  trap - EXIT
  trap '' HUP INT TERM USR1
  local where=null killed=null text
  [ -n "$phase" ] && where=$(json "$phase")
  text=$(oom_kills) # may be null this time
  [ "$ooms" = null ] || [ "$text" = null ] || killed=$((text - ooms))
  printf -v text '{"exit_code":%d,"phase":%s,"rank":%s,"node":%s,"signal":%s,"reason":%s,"job_id":%s,"host":%s,' \
    "$1" "$where" "$rank" "$node" "$signal" "$reason" "$(json "$job_id")" "$(json "$HOSTNAME")"
  printf -v text '%s"started":%s,"ended":%s,"oom_kills":%s,"phases":[%s]}' \
    "$text" "$started" "$(now)" "$killed" "${phases#,}"
  printf -v text '%s,"since_boot":{"boot_id":%s,"started":%s,"ended":%s}}' \
    "${text%?}" "$(json "$(boot_id)")" "$begun" "$(since_boot)"
  say "ended with exit code $1"
  printf '%s' "$text" 1<> .exit.json
  mv -f .exit.json exit.json
  at_end
  exit "$1"
}

at_end() { :; } # a launcher's work after the end of the run

fail() { # exit code, why
  reason=$(json "$2")
  say "$2"
  finish "$1"
}

unwritten() { fail 1 "$1 could not be written in $PWD (disk full?)"; } # file

interrupted() { # signal, its number
  trap '' HUP INT TERM
  signal=\"$1\"
  say "got SIG$1, stopping the ranks"
  stop_ranks
  finish $((128 + $2))
}

enter() { # phase
  phase=$1 entered=$(now)
}

leave() { # true if the phase was skipped, else false
  phases+=",{\"role\":$(json "$phase"),\"skipped\":$1,\"started\":$entered,\"ended\":$(now)}"
  phase=
}

exists() { [ -e "$1" ] || compgen -G "$1" > /dev/null; }

skipped_for() { # file whose existence makes the phase unnecessary
  [ -e "$1" ] || return 1
  say "phase $phase is skipped: $1 exists"
  leave true
}

needs() {
  local path
  for path; do exists "$path" || fail 1 "phase $phase needs $path, which does not exist"; done
}

forget() { # remove older files that could be taken for output of the phase
  local path file
  for path; do
    [ ! -f "$path" ] || rm -f -- "$path"
    while IFS= read -r file; do [ ! -f "$file" ] || rm -f -- "$file"; done < <(compgen -G "$path")
  done
}

makes() {
  local path
  for path; do exists "$path" || fail 1 "phase $phase ended with exit code 0 but did not make $path"; done
}
