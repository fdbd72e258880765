#!/bin/bash
#SBATCH --job-name=pretrain_toy_mini_bf16_1_tp1_pp1_cp1_vp1_mbs1_gbs1
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --output="\\sbatch_pretrain_toy_mini_bf16_1_tp1_pp1_cp1_vp1_mbs1_gbs1.out"
#SBATCH --open-mode=append
#SBATCH --no-requeue
# pretrain_toy_mini_bf16_1_tp1_pp1_cp1_vp1_mbs1_gbs1: 1 rank(s) on 1 node(s)
# This script does not need llmbx or any other file of the machine that rendered it.
set -u
run_dir=/install/workloads/pretrain_toy/experiments/x/x_1/x
umask go-w # only the owner of a run changes its files
log=log-pretrain_toy_mini_bf16_1_tp1_pp1_cp1_vp1_mbs1_gbs1.out
job_id=${SLURM_JOB_ID-}
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

# Messages of srun if the controller did not answer
unanswered='Communication connection failure
Communication shutdown failure
Connection forced closed by quiesce timeout
Connection rejected by handler
Insane message length
Kernel reported delayed socket error
Message receive failure
Message send failure
Process is shutting down and closing all communications
Rate limit exceeded
Socket timed out on send/recv operation
Unable to contact slurm controller
Unexpected message received
Unexpected missing socket error
Zero Bytes were transmitted or received
in standby mode
Broken pipe
Cannot assign requested address
Cannot send after transport endpoint shutdown
Connection refused
Connection reset by peer
Connection timed out
Host is down
Network dropped connection on reset
Network is down
Network is unreachable
No route to host
Software caused connection abort
Transport endpoint is not connected'

# Functions that start the ranks of each phase as the tasks of one srun.
step='' srun_messages=/proc/$$/fd/2 # srun's own messages go to standard error
trap '' USR1 # this signal requests stack dumps from the ranks

archive_previous_start() { # moves the files of an earlier start of a requeued job to attempts/N
  ((${SLURM_RESTART_COUNT:-0})) || return 0
  local n=0 path
  mkdir -p attempts
  until mkdir "attempts/$n" 2> /dev/null; do ((++n < 1000)) || fail 1 "cannot create attempts/$n in $PWD"; done
  for path in * .exit.json; do
    case $path in
      run.json | run.sh | result.json | tags.json | given-up | attempts | sbatch_*.out) ;;
      *) [ ! -e "$path" ] || mv -- "$path" "attempts/$n/" ;;
    esac
  done
}

forward() { interrupted "$1" "$2"; } # signal, its number

first_address() { # address of the job's first node, as configured in Slurm
  local first address
  first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
  address=$(scontrol show node "$first" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
  echo "${address:-$first}"
}

stop_ranks() {
  [ -n "$step" ] || return 0
  kill -s TERM "$step" 2> /dev/null
  wait "$step"
}

# srun exits with the highest code of all tasks, including stopped ones; its messages tell which task failed first
first_failure() { # offset in the messages, exit code of srun; sets rank, node and status
  local line pattern='^srun: error: ([^ :]+): tasks? ([0-9]+)([-,][-,0-9]*)?: (.+)$'
  status=$2
  while read -r line; do
    [[ $line =~ $pattern ]] || continue
    node=$(json "${BASH_REMATCH[1]}")
    [ -n "${BASH_REMATCH[3]}" ] || rank=${BASH_REMATCH[2]}
    case ${BASH_REMATCH[4]} in
      "Exited with exit code "*) status=${BASH_REMATCH[4]##* } ;;
      Aborted*) status=134 ;;
      "Bus error"*) status=135 ;;
      Killed* | "Out Of Memory"*) status=137 ;;
      "Segmentation fault"*) status=139 ;;
    esac
    return
  done < <([ -f "$srun_messages" ] && tail -c "+$(($1 + 1))" "$srun_messages")
}

# A short outage of the controller (a restart, a failover, a lost answer) must not end a job that has waited for its
# nodes. srun prints such a message before any rank has started, so the step can be started again.
was_unanswered() { # offset in srun's messages
  [ -f "$srun_messages" ] || return
  local request='^srun: error: Unable to (create step|confirm allocation) for job [0-9]+: '
  tail -c "+$(($1 + 1))" "$srun_messages" | grep -E "$request" | grep -qF "$unanswered"
}

retry_s=600

start_step() { # function that starts the ranks; sets code (of srun) and size (offset of its messages)
  local deadline
  deadline=$(since_boot)
  deadline=$((${deadline%.*} + retry_s))
  while :; do
    code=0 size=$(stat -L -c %s "$srun_messages")
    "$1" < /dev/null &
    step=$!
    wait "$step" || code=$?
    step=''
    ((code)) && was_unanswered "$size" || return 0
    before "$deadline" || fail 4 "the Slurm controller was unreachable for $((retry_s / 60)) minutes"
    say "the Slurm controller is unreachable: starting phase $phase again"
    # The controller may hold the resources for a step that it has created and that its answer did not reach.
    unset SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU
    export SLURM_OVERLAP=1 SLURM_MEM_PER_NODE=0
    sleep 5 &
    wait $!
  done
}

run() { # number of ranks, function that starts the ranks
  local status=0 code size
  say "phase $phase: $1 rank(s)"
  LLMBX_MASTER_PORT=$((LLMBX_MASTER_PORT + 1))
  start_step "$2"
  ((code == 0)) || first_failure "$size" "$code"
  ((status == 0)) || finish "$status"
}

rank_train() {
  exec srun --export=ALL --nodes=1 --ntasks=1 --ntasks-per-node=1 --kill-on-bad-exit=1 \
    '--output=\log-pretrain_toy_mini_bf16_1_tp1_pp1_cp1_vp1_mbs1_gbs1.out' --open-mode=append /bin/sh \
    "$run_dir"/rank-train.sh
}

archive_previous_start
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

[ -n "${SLURM_JOB_ID-}" ] || fail 2 "submit this script with sbatch"
unset LLMBX_RANK LLMBX_LOCAL_RANK LLMBX_NODE_RANK LLMBX_NODE_NAME LLMBX_WORLD_SIZE LLMBX_LOCAL_WORLD_SIZE LLMBX_MASTER_ADDR LLMBX_MASTER_PORT
LLMBX_MASTER_ADDR=$(first_address)
LLMBX_MASTER_PORT=$((10000 + SLURM_JOB_ID * 8 % 20000))
export LLMBX_MASTER_ADDR LLMBX_MASTER_PORT

enter train
run 1 rank_train
leave false

finish 0
