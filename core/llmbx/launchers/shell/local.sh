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
