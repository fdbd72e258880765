#!/bin/bash
# pretrain_toy_mini_bf16_1_tp1_pp1_cp1_vp1_mbs1_gbs1: 1 rank(s) here
# This script does not need llmbx or any other file of the machine that rendered it.
set -u
run_dir=/install/workloads/pretrain_toy/experiments/x/x_1/x
umask go-w # only the owner of a run changes its files
log=log-pretrain_toy_mini_bf16_1_tp1_pp1_cp1_vp1_mbs1_gbs1.out
job_id=$$
mkdir -p "$run_dir" && cd "$run_dir" || exit 1

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

# The ranks are processes of this machine. Each has a supervisor that reports its end; both form one process group.
set -m
grace=${LLMBX_STOP_GRACE_S:-5} # seconds between TERM and KILL
pids=() copies=()
exec 9<> <(:)         # events: a rank and its exit code, or a signal and its number
trap 'signal_ranks USR1' USR1 # the signal for stack dumps

forward() { echo "$1 $2" >&9; } # signal, its number

free_port() {
  local port
  while port=$((20000 + RANDOM % 10000)); (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do :; done
  echo "$port"
}

supervise_rank() { # rank, function that runs it
  trap '' USR1 # the signal for stack dumps must not kill programs that do not handle it
  export LLMBX_RANK=$1 LLMBX_LOCAL_RANK=$1
  "$2" 8>&- 9>&-
  set -- "$1" $?
  echo "$1 $2" >&9
  exit "$2"
}

copy_lines() { # file, offset, process: copy complete lines after the offset while the process is alive
  LC_ALL=C tail -c "+$(($2 + 1))" -s 0.1 --pid="$3" -f "$1" 2> /dev/null |
    LC_ALL=C stdbuf -o 1M grep -a --line-buffered ''
}

signal_ranks() { # signal: send it to every rank and all its processes
  local n
  for n in "${!pids[@]}"; do kill -s "$1" -- "-${pids[n]}" 2> /dev/null; done
}

alive() { # process group: true if it has a process that is not a zombie
  local group=$1 file line
  kill -0 -- "-$group" 2> /dev/null || return 1
  for file in /proc/[0-9]*/stat; do
    { read -r line < "$file"; } 2> /dev/null || continue
    # shellcheck disable=SC2086 # after the name: state, parent, process group
    set -- ${line##*) }
    [ "$1" != Z ] && [ "$3" = "$group" ] && return
  done
  return 1
}

any_left() {
  local n
  for n in "${!pids[@]}"; do alive "${pids[n]}" && return; done
  return 1
}

stop_ranks() { # stop the remaining ranks; returns when all their output is in the log
  local end
  end=$(since_boot)
  end=$((${end%.*} + grace))
  if any_left; then
    signal_ranks TERM
    signal_ranks CONT # a stopped process gets TERM when it continues
    while any_left && before "$end"; do sleep 0.1; done
    signal_ranks KILL
  fi
  wait "${pids[@]}" 2> /dev/null
  exec 8>&-
  wait "${copies[@]}"
}

next_end() { # wait for the next rank to end; sets n (the rank) and status (its exit code)
  local event
  while :; do
    # A second and not longer: bash runs the trap of a signal that arrives just before it reads only when it has read.
    read -t 1 -r -u 9 event status
    case $? in
      0)
        case $event in
          *[A-Z]) interrupted "$event" "$status" ;;
          *) n=$event; [ -n "${waiting[n]-}" ] && return ;;
        esac ;;
      *)
        for n in "${!waiting[@]}"; do
          kill -0 "${pids[n]}" 2> /dev/null && continue
          wait "${pids[n]}" # its supervisor was killed and did not report
          status=$?
          return
        done ;;
    esac
  done
}

run() { # number of ranks, function that runs one
  local n out size status clock waiting=()
  say "phase $phase: $1 rank(s)"
  export LLMBX_WORLD_SIZE=$1 LLMBX_LOCAL_WORLD_SIZE=$1 LLMBX_NODE_RANK=0
  export LLMBX_MASTER_ADDR=127.0.0.1 LLMBX_MASTER_PORT
  LLMBX_MASTER_PORT=$(free_port)
  pids=() copies=()
  exec 8> >(exec cat) # lives as long as this script or a supervisor, which keep its input open
  clock=$!
  for ((n = 0; n < $1; n++)); do
    out=$log
    [ "$1" -gt 1 ] && out=rank-$n.log
    : >> "$out"
    size=$(stat -c %s "$out")
    supervise_rank "$n" "$2" >> "$out" 2>&1 < /dev/null &
    pids[n]=$! waiting[n]=$n
    [ "$1" -gt 1 ] || continue
    copy_lines "$out" "$size" "$clock" >> "$log" 8>&- 9>&- &
    copies+=($!)
  done
  while ((${#waiting[@]})); do
    next_end
    unset "waiting[n]"
    ((status == 0)) || failed "$n" "$status"
  done
  any_left && say "phase $phase left processes behind, stopping them"
  stop_ranks
}

failed() { # rank, exit code
  rank=$1
  say "phase $phase: rank $1 ended with exit code $2"
  stop_ranks
  finish "$2"
}

rank_train() {
  /bin/sh "$run_dir"/rank-train.sh
}

begin

cat > ./spec.json << 'END_OF_FILE' || unwritten ./spec.json
{}
END_OF_FILE
cat > ./rank-train.sh << 'END_OF_FILE' || unwritten ./rank-train.sh
#!/bin/sh
# Runs one rank of the phase "train": determines which rank it is and starts the program.
cd "${0%/*}" || exit 1
umask go-w # the program may run in a container with a umask of its own
trap '' USR1 # the signal for stack dumps must not kill programs that do not handle it
LLMBX_RANK=${LLMBX_RANK:-${SLURM_PROCID:-0}}
LLMBX_LOCAL_RANK=${LLMBX_LOCAL_RANK:-${SLURM_LOCALID:-0}}
LLMBX_NODE_RANK=${LLMBX_NODE_RANK:-${SLURM_NODEID:-0}}
LLMBX_NODE_NAME=${LLMBX_NODE_NAME:-${SLURMD_NODENAME:-$(uname -n)}}
LLMBX_WORLD_SIZE=${LLMBX_WORLD_SIZE:-${SLURM_NTASKS:-1}}
LLMBX_LOCAL_WORLD_SIZE=${LLMBX_LOCAL_WORLD_SIZE:-${SLURM_STEP_TASKS_PER_NODE:-1}}
LLMBX_MASTER_ADDR=${LLMBX_MASTER_ADDR:-${SLURM_LAUNCH_NODE_IPADDR:-127.0.0.1}}
LLMBX_LOCAL_WORLD_SIZE=${LLMBX_LOCAL_WORLD_SIZE%%[(,]*}
LLMBX_MASTER_PORT=${LLMBX_MASTER_PORT:-29500}
export LLMBX_RANK LLMBX_LOCAL_RANK LLMBX_NODE_RANK LLMBX_NODE_NAME LLMBX_WORLD_SIZE LLMBX_LOCAL_WORLD_SIZE LLMBX_MASTER_ADDR LLMBX_MASTER_PORT
[ "$LLMBX_LOCAL_RANK" -ne 0 ] || /bin/sh ./node.sh 2> /dev/null # describe this node
set -- /bin/sh -c 'echo hello'
exec "$@"
END_OF_FILE
cat > ./node.sh << 'END_OF_FILE' || unwritten ./node.sh
# Describe this node, for comparisons: the machine that submitted the job may differ.
{
  echo "host $LLMBX_NODE_NAME"
  echo "hostname $(uname -n)"
  echo "rank $LLMBX_RANK"
  echo "kernel $(uname -r)"
  echo "cores $(nproc --all)"
  while IFS=: read -r key value; do
    case $key in "model name"*) echo "cpu$value" && break ;; esac
  done < /proc/cpuinfo
  command -v nvidia-smi > /dev/null && timeout -k 1 30 nvidia-smi --format=csv,noheader,nounits \
    --query-gpu=name,driver_version,power.limit,clocks.max.sm,clocks.max.memory,clocks.applications.graphics,power.default_limit,clocks.default_applications.graphics |
    while read -r line; do echo "gpu $line"; done
} > "node-$LLMBX_NODE_RANK.txt"
END_OF_FILE

enter train
run 1 rank_train
leave false

finish 0
