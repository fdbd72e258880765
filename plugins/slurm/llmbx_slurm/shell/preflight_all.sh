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
