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
