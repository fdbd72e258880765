# The ranks are the tasks of one srun for each phase.
step=''
trap '' USR1 # the signal for stack dumps is for the ranks

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

run() { # number of ranks, function that starts them
  local status
  say "phase $phase: $1 rank(s)"
  LLMBX_MASTER_PORT=$((LLMBX_MASTER_PORT + 1))
  "$2" < /dev/null &
  step=$!
  wait "$step"
  status=$?
  step=''
  ((status == 0)) || finish "$status"
}
