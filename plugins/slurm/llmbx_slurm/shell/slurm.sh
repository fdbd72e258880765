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
