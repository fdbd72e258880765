# Checks every node before the framework starts; a faulty node ends the run, and the error names it.
node_fault() { # node number, node name, srun's messages, most common driver version; prints the fault, if any
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
  why=$(sed -n 's/^bad=//p' "$file" | paste -s -d ';')
  [ -z "$why" ] || { echo "${why//;/, }"; return; }
  why=$(sed -n 's/^driver=//p' "$file")
  [ -z "$why" ] || [ "$why" = "$4" ] || echo "driver $why, but the other nodes have $4"
}

check_nodes() { # number of nodes
  local names=() bad='' which='' output code size common n why
  enter preflight
  say "phase $phase: $1 node(s)"
  rm -f preflight-*.txt
  start_step rank_preflight
  output=$([ -f "$srun_messages" ] && tail -c "+$((size + 1))" "$srun_messages")
  mapfile -t names < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  common=$(sed -n 's/^driver=//p' preflight-*.txt 2> /dev/null | sort | uniq -c | sort -rn | head -n 1)
  for ((n = 0; n < $1; n++)); do
    why=$(node_fault "$n" "${names[n]}" "$output" "${common##* }")
    [ -z "$why" ] || { which+=",${names[n]}" bad+="; node ${names[n]}: $why"; }
  done
  [ -z "$bad" ] || { node=$(json "${which#,}"); fail 4 "${bad#; }"; }
  phase=''
}
