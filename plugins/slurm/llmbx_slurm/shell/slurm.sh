# The ranks are the tasks of one srun for each phase.
step='' mine=/proc/$$/fd/2 # where srun's own messages go
trap '' USR1 # the signal for stack dumps is for the ranks

set_aside() { # what an earlier start of this job left, so that nothing of it is taken for this one's
  ((${SLURM_RESTART_COUNT:-0})) || return 0
  local n=0 path
  mkdir -p attempts
  until mkdir "attempts/$n" 2> /dev/null; do ((++n < 1000)) || fail 1 "attempts/$n cannot be made in $PWD"; done
  for path in * .exit.json; do
    case $path in
      run.json | run.sh | result.json | tags.json | given-up | attempts | sbatch_*.out) ;;
      *) [ ! -e "$path" ] || mv -- "$path" "attempts/$n/" ;;
    esac
  done
}

asked() { interrupted "$1" "$2"; } # signal, its number

first_address() { # of the job's first node, as the scheduler itself reaches it
  local first address
  first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
  address=$(scontrol show node "$first" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
  echo "${address:-$first}"
}

stop() {
  [ -n "$step" ] || return 0
  kill -s TERM "$step" 2> /dev/null
  wait "$step"
}

# srun ends with the highest code of all tasks, stopped ones included; its messages say which failed first
first_failure() { # offset in the messages, code of srun: sets rank, node and status
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
  done < <([ -f "$mine" ] && tail -c "+$(($1 + 1))" "$mine")
}

# A controller that is down for a moment (a restart, a failover) must not cost a job that waited for its nodes. srun says
# this before any rank has started, so that starting again repeats nothing.
unreached='^srun: error: Unable to (create step|confirm allocation) for job [0-9]+: Unable to contact slurm controller'
patience=600 # seconds

start_step() { # function that starts the ranks: sets code, that of srun, and size, where its messages begin
  local give_up=$((SECONDS + patience))
  while :; do
    code=0 size=$(stat -L -c %s "$mine")
    "$1" < /dev/null &
    step=$!
    wait "$step" || code=$?
    step=''
    ((code)) && [ -f "$mine" ] && tail -c "+$((size + 1))" "$mine" | grep -qE "$unreached" || return 0
    ((SECONDS < give_up)) || fail 4 "the Slurm controller could not be reached for $((patience / 60)) minutes"
    say "the Slurm controller cannot be reached: phase $phase starts again"
    sleep 5 &
    wait $!
  done
}

run() { # number of ranks, function that starts them
  local status=0 code size
  say "phase $phase: $1 rank(s)"
  LLMBX_MASTER_PORT=$((LLMBX_MASTER_PORT + 1))
  start_step "$2"
  ((code == 0)) || first_failure "$size" "$code"
  ((status == 0)) || finish "$status"
}
