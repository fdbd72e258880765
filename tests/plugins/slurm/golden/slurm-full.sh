#!/bin/bash
#SBATCH --job-name=pretrain_toy_mini_bf16_8_tp1_pp1_cp1_vp1_mbs1_gbs1
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --output=sbatch_pretrain_toy_mini_bf16_8_tp1_pp1_cp1_vp1_mbs1_gbs1_%j.out
#SBATCH --open-mode=append
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --no-requeue
#SBATCH --time=01:35:00
# pretrain_toy_mini_bf16_8_tp1_pp1_cp1_vp1_mbs1_gbs1: 8 rank(s) on 2 node(s)
# This script does not need llmbx or any other file of the machine that rendered it.
set -u
run_dir=/install/workloads/pretrain_toy/experiments/x/x_TIMESTAMP/x
case $run_dir in *_TIMESTAMP/*) # every start makes a folder of its own and continues as a copy of this script in it
  name=${run_dir##*/} folder=${run_dir%_TIMESTAMP/*} stamp=$(date +%s)
  umask o-w # a group may share the folder of all runs
  mkdir -p "${folder%/*}" || exit 1
  umask go-w
  until mkdir "${folder}_$stamp" 2> /dev/null; do
    [ -e "${folder}_$stamp" ] || { echo "cannot create ${folder}_$stamp" >&2; exit 1; }
    stamp=$((stamp + 1))
  done
  folder=${folder}_$stamp/$name
  mkdir "$folder" && sed "s/\(${name//./\\.}\)_TIMESTAMP/\1_$stamp/g" "$0" > "$folder/run.sh" || exit 1
  chmod +x "$folder/run.sh"
  echo "run folder: $folder"
  exec bash "$folder/run.sh" >> "$folder/"sbatch_pretrain_toy_mini_bf16_8_tp1_pp1_cp1_vp1_mbs1_gbs1.out 2>&1 ;;
esac
umask go-w # only the owner of a run changes its files
log=log-pretrain_toy_mini_bf16_8_tp1_pp1_cp1_vp1_mbs1_gbs1.out
job_id=${SLURM_JOB_ID-}
mkdir -p "$run_dir" && cd "$run_dir" || exit 1
job_name=llmbx-$job_id-${SLURM_RESTART_COUNT:-0}

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

rank_collect() {
  export XLA_FLAGS='--a --b=1'
  exec srun --export=ALL --nodes=2 --ntasks=8 --ntasks-per-node=4 --kill-on-bad-exit=1 \
    '--output=\log-pretrain_toy_mini_bf16_8_tp1_pp1_cp1_vp1_mbs1_gbs1.out' --open-mode=append --wait=60 --label \
    --container-image=/install/images/a.sqsh --container-name="$job_name" /bin/sh "$run_dir"/rank-collect.sh
}

rank_convert() {
  exec srun --export=ALL --nodes=1 --ntasks=1 --ntasks-per-node=1 --relative=0 --kill-on-bad-exit=1 \
    '--output=\log-pretrain_toy_mini_bf16_8_tp1_pp1_cp1_vp1_mbs1_gbs1.out' --open-mode=append --wait=60 \
    --container-image=/install/images/a.sqsh --container-name="$job_name" /bin/sh "$run_dir"/rank-convert.sh
}

rank_train() {
  exec srun --export=ALL --nodes=2 --ntasks=8 --ntasks-per-node=4 --kill-on-bad-exit=1 \
    '--output=\log-pretrain_toy_mini_bf16_8_tp1_pp1_cp1_vp1_mbs1_gbs1.out' --open-mode=append --wait=60 --label \
    --container-image=/install/images/a.sqsh --container-name="$job_name" /bin/sh "$run_dir"/rank-train.sh
}

# Checks every node before the framework starts; a faulty node ends the run, and the error names it.
node_fault() { # node number, node name, srun's messages; prints the fault, if any
  local file=preflight-$1.txt why
  if [ ! -f "$file" ]; then
    why=$(sed -n "s/^srun: error: $2: tasks* [^:]*: //p" <<< "$3" | head -n 1)
    [ -n "$why" ] || why=$(sed -n 's/^srun: error: [^:]*\[.*\]: tasks* [^:]*: //p' <<< "$3" | head -n 1) # of several
    case $why in
      *"exit code 11"*) echo "cannot write to the run folder" ;;
      *) echo "no check result (${why:-not visible on the first node}): the container did not start, or the run folder is not shared" ;;
    esac
    return
  fi
  why=$(sed -n 's/^bad=//p' "$file"; grep -h '^same\.' "$file" | grep -vxFf "$usual" | sed 's/^same\.\([^=]*\)=/\1 differs from the other nodes: /')
  [ -z "$why" ] || { why=$(paste -s -d ';' <<< "$why"); echo "${why//;/, }"; }
}

usual_values() { # prints the most common value of each name that must be equal on all nodes
  cat preflight-*.txt 2> /dev/null | grep '^same\.' | sort | uniq -c | sort -rn |
    sed 's/^ *[0-9]* //' | awk -F= '!seen[$1]++'
}

check_nodes() { # number of nodes
  local names=() bad='' which='' output code size n why usual=.preflight-usual
  enter preflight
  say "phase $phase: $1 node(s)"
  rm -f preflight-*.txt
  start_step rank_preflight
  output=$([ -f "$srun_messages" ] && tail -c "+$((size + 1))" "$srun_messages")
  mapfile -t names < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  usual_values > "$usual"
  for ((n = 0; n < $1; n++)); do
    why=$(node_fault "$n" "${names[n]}" "$output")
    [ -z "$why" ] || { which+=",${names[n]}" bad+="; node ${names[n]}: $why"; }
  done
  rm -f "$usual"
  [ -z "$bad" ] || { node=$(json "${which#,}"); fail 4 "${bad#; }"; }
  phase=''
}

rank_preflight() {
  export XLA_FLAGS='--a --b=1'
  exec srun --export=ALL --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=0 --output=preflight.out \
    --open-mode=append --wait=0 --time=10 --label --container-image=/install/images/a.sqsh \
    --container-name="$job_name" /bin/sh "$run_dir"/rank-preflight.sh
}

# Sets the boost slider of the GPUs; a failure is only a warning.
set_vboost() { # number of nodes, level
  local code size done why
  rm -f vboost.out
  phase=vboost
  start_step rank_vboost
  phase=''
  done=$(grep -c 'vboost is set$' vboost.out 2> /dev/null)
  why=$(sed -n 's/^.*vboost is not set: *//p' vboost.out 2> /dev/null | head -n 1)
  [ "${done:-0}" -ge "$1" ] || say "warning: vboost $2 was set on ${done:-0} of $1 node(s): ${why:-srun failed (exit code $code)}"
}

rank_vboost() {
  exec srun --export=ALL --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=0 --output=vboost.out \
    --open-mode=append --wait=0 --time=2 --label /bin/sh -c \
    'set -- nvidia-smi boost-slider --vboost "$1"
[ "$(id -u)" -eq 0 ] || set -- sudo -n "$@"
text=$("$@" 2>&1) && echo "vboost is set" || echo "vboost is not set: $text"' \
    vboost 1
}

at_end() { # removes what the runtime left on the nodes
  timeout 120 srun --export=ALL --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=0 --output=/dev/null \
    --open-mode=append --wait=0 --time=2 --label enroot remove --force pyxis_"$job_name" < /dev/null > /dev/null 2>&1
}

archive_previous_start
begin

cat > ./rank-collect.sh << 'END_OF_FILE' || unwritten ./rank-collect.sh
#!/bin/sh
# Runs one rank of the phase "collect": determines which rank it is and starts the program.
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
set -- /bin/sh -c collect
if [ "$LLMBX_RANK" -eq 0 ]; then set -- nsys profile -o 'nsys_profile/rank%q{LLMBX_RANK}' "$@"; fi
# Bind the rank to the NUMA node of its GPU or, if the machine does not tell which one it is, to the recipe's.
gpu_bus() { # PCI address of the rank's GPU; its domain has the eight digits of nvidia-smi, not the four of Linux
  gpu=${CUDA_VISIBLE_DEVICES:-$LLMBX_LOCAL_RANK}
  case $gpu in *,*) gpu=$(echo "$gpu" | cut -d , -f $((LLMBX_LOCAL_RANK + 1))) ;; esac
  timeout 30 nvidia-smi --id="$gpu" --query-gpu=pci.bus_id --format=csv,noheader 2> /dev/null | tr A-F a-f
}
can_bind() { # NUMA node: true if it has cores and numactl can bind the rank to it
  cores=$(cat "/sys/devices/system/node/node$1/cpulist" 2> /dev/null) # dash's read gets nothing from this file
  [ -n "$cores" ] && numactl "--cpunodebind=$1" "--membind=$1" true 2> /dev/null
}
by=GPU bus=$(gpu_bus)
node=$(cat "/sys/bus/pci/devices/${bus#????}/numa_node" 2> /dev/null)
can_bind "$node" || { by=recipe node=$((LLMBX_LOCAL_RANK / 2)); can_bind "$node"; } || by=''
if [ -n "$by" ]; then
  set -- numactl "--cpunodebind=$node" "--membind=$node" "$@"
else
  why='numactl may not bind it'
  [ -n "$cores" ] || why="there is no NUMA node $node with cores"
  command -v numactl > /dev/null || why='numactl is not installed'
  case "$LLMBX_RANK $LLMBX_NODE_RANK $cores" in # the first rank, and those of the first node that lack their NUMA node
    '0 '* | *' 0 ') echo "llmbx: warning: rank $LLMBX_RANK is not bound to a NUMA node: $why" ;;
  esac
fi
[ "$LLMBX_LOCAL_RANK" -ne 0 ] || echo "numa ${by:-off: $why}" >> "node-$LLMBX_NODE_RANK.txt"
exec "$@"
END_OF_FILE
cat > ./rank-convert.sh << 'END_OF_FILE' || unwritten ./rank-convert.sh
#!/bin/sh
# Runs one rank of the phase "convert": determines which rank it is and starts the program.
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
set -- /bin/sh -c convert
# Bind the rank to the NUMA node of its GPU or, if the machine does not tell which one it is, to the recipe's.
gpu_bus() { # PCI address of the rank's GPU; its domain has the eight digits of nvidia-smi, not the four of Linux
  gpu=${CUDA_VISIBLE_DEVICES:-$LLMBX_LOCAL_RANK}
  case $gpu in *,*) gpu=$(echo "$gpu" | cut -d , -f $((LLMBX_LOCAL_RANK + 1))) ;; esac
  timeout 30 nvidia-smi --id="$gpu" --query-gpu=pci.bus_id --format=csv,noheader 2> /dev/null | tr A-F a-f
}
can_bind() { # NUMA node: true if it has cores and numactl can bind the rank to it
  cores=$(cat "/sys/devices/system/node/node$1/cpulist" 2> /dev/null) # dash's read gets nothing from this file
  [ -n "$cores" ] && numactl "--cpunodebind=$1" "--membind=$1" true 2> /dev/null
}
by=GPU bus=$(gpu_bus)
node=$(cat "/sys/bus/pci/devices/${bus#????}/numa_node" 2> /dev/null)
can_bind "$node" || { by=recipe node=$((LLMBX_LOCAL_RANK / 2)); can_bind "$node"; } || by=''
if [ -n "$by" ]; then
  set -- numactl "--cpunodebind=$node" "--membind=$node" "$@"
else
  why='numactl may not bind it'
  [ -n "$cores" ] || why="there is no NUMA node $node with cores"
  command -v numactl > /dev/null || why='numactl is not installed'
  case "$LLMBX_RANK $LLMBX_NODE_RANK $cores" in # the first rank, and those of the first node that lack their NUMA node
    '0 '* | *' 0 ') echo "llmbx: warning: rank $LLMBX_RANK is not bound to a NUMA node: $why" ;;
  esac
fi
[ "$LLMBX_LOCAL_RANK" -ne 0 ] || echo "numa ${by:-off: $why}" >> "node-$LLMBX_NODE_RANK.txt"
exec "$@"
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
set -- /bin/sh -c train
# Bind the rank to the NUMA node of its GPU or, if the machine does not tell which one it is, to the recipe's.
gpu_bus() { # PCI address of the rank's GPU; its domain has the eight digits of nvidia-smi, not the four of Linux
  gpu=${CUDA_VISIBLE_DEVICES:-$LLMBX_LOCAL_RANK}
  case $gpu in *,*) gpu=$(echo "$gpu" | cut -d , -f $((LLMBX_LOCAL_RANK + 1))) ;; esac
  timeout 30 nvidia-smi --id="$gpu" --query-gpu=pci.bus_id --format=csv,noheader 2> /dev/null | tr A-F a-f
}
can_bind() { # NUMA node: true if it has cores and numactl can bind the rank to it
  cores=$(cat "/sys/devices/system/node/node$1/cpulist" 2> /dev/null) # dash's read gets nothing from this file
  [ -n "$cores" ] && numactl "--cpunodebind=$1" "--membind=$1" true 2> /dev/null
}
by=GPU bus=$(gpu_bus)
node=$(cat "/sys/bus/pci/devices/${bus#????}/numa_node" 2> /dev/null)
can_bind "$node" || { by=recipe node=$((LLMBX_LOCAL_RANK / 2)); can_bind "$node"; } || by=''
if [ -n "$by" ]; then
  set -- numactl "--cpunodebind=$node" "--membind=$node" "$@"
else
  why='numactl may not bind it'
  [ -n "$cores" ] || why="there is no NUMA node $node with cores"
  command -v numactl > /dev/null || why='numactl is not installed'
  case "$LLMBX_RANK $LLMBX_NODE_RANK $cores" in # the first rank, and those of the first node that lack their NUMA node
    '0 '* | *' 0 ') echo "llmbx: warning: rank $LLMBX_RANK is not bound to a NUMA node: $why" ;;
  esac
fi
[ "$LLMBX_LOCAL_RANK" -ne 0 ] || echo "numa ${by:-off: $why}" >> "node-$LLMBX_NODE_RANK.txt"
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

cat > ./preflight.sh << 'END_OF_FILE' || unwritten ./preflight.sh
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

for repository; do check_cache "$repository"; done
mv -f "$file.part" "$file" || exit 11
END_OF_FILE
cat > ./rank-preflight.sh << 'END_OF_FILE' || unwritten ./rank-preflight.sh
#!/bin/sh
# Runs one rank of the phase "preflight": determines which rank it is and starts the program.
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
set -- /bin/sh preflight.sh
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

check_nodes 2

set_vboost 2 1

enter collect
if ! skipped_for /cache/profile.pbtxt; then
  forget 'nsys_profile/*.nsys-rep'
  run 8 rank_collect
  makes 'nsys_profile/*.nsys-rep'
  leave false
fi

enter convert
if ! skipped_for /cache/profile.pbtxt; then
  needs nsys_profile/rank0.nsys-rep
  run 1 rank_convert
  makes /cache/profile.pbtxt
  leave false
fi

enter train
needs /cache/profile.pbtxt
run 8 rank_train
leave false

finish 0
