# Every node is looked at before the framework starts: a bad one ends the run, by its name.
answer() { # number of a node, its name, what srun said, the driver that most have: why it is bad; nothing where it is not
  local file=preflight-$1.txt why
  if [ ! -f "$file" ]; then
    why=$(sed -n "s/^srun: error: $2: tasks* [^:]*: //p" <<< "$3" | head -n 1)
    [ -n "$why" ] || why=$(sed -n 's/^srun: error: [^:]*\[.*\]: tasks* [^:]*: //p' <<< "$3" | head -n 1) # of several
    case $why in
      *"exit code 11"*) echo "the run's folder cannot be written there" ;;
      *) echo "no answer (${why:-nothing that the first node can see}): its container did not start, or its folder is another" ;;
    esac
    return
  fi
  why=$(sed -n 's/^bad=//p' "$file" | paste -s -d ';')
  [ -z "$why" ] || { echo "${why//;/, }"; return; }
  why=$(sed -n 's/^driver=//p' "$file")
  [ -z "$why" ] || [ "$why" = "$4" ] || echo "driver $why, the others have $4"
}

look_at_nodes() { # how many there are
  local names=() bad='' which='' said code size common n why
  enter preflight
  say "phase $phase: $1 node(s)"
  rm -f preflight-*.txt
  start_step rank_preflight
  said=$([ -f "$mine" ] && tail -c "+$((size + 1))" "$mine")
  mapfile -t names < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  common=$(sed -n 's/^driver=//p' preflight-*.txt 2> /dev/null | sort | uniq -c | sort -rn | head -n 1)
  for ((n = 0; n < $1; n++)); do
    why=$(answer "$n" "${names[n]}" "$said" "${common##* }")
    [ -z "$why" ] || { which+=",${names[n]}" bad+="; node ${names[n]}: $why"; }
  done
  [ -z "$bad" ] || { node=$(json "${which#,}"); fail 4 "${bad#; }"; }
  phase=''
}
