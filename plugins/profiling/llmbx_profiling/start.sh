# usage: start.sh LENT PROFILER… start.sh PROGRAM…     starts PROGRAM under PROFILER, again where that fails before it
# nsys sometimes ends with "End of file" or "Agent launcher failed" on a busy machine, and the program was never started.
# LENT is the host's profiler, for an image that has none, with the libraries that an image may lack; empty: there is none.
if [ "${LLMBX_PROFILER_MARK-}" ]; then
  : > "$LLMBX_PROFILER_MARK"
  unset LLMBX_PROFILER_MARK
  if [ "${LLMBX_OWN_LIBRARIES+set}" ]; then # the program loads what its image has, and nothing lent
    LD_LIBRARY_PATH=$LLMBX_OWN_LIBRARIES
    [ "$LD_LIBRARY_PATH" ] || unset LD_LIBRARY_PATH
    unset LLMBX_OWN_LIBRARIES
  fi
  exec "$@"
fi
llmbx_lent=$1
shift
# One that is there and cannot start (a folder of the host's that the container sees, without its libraries) is none.
if ! command -v "$1" > /dev/null || { [ -x "$llmbx_lent" ] && ! "$1" --version > /dev/null 2>&1; }; then
  if [ ! -x "$llmbx_lent" ]; then
    echo "llmbx: $1 is not on PATH where the ranks run, and the machine has none to lend to their image" >&2
    exit 127
  fi
  shift
  set -- "$llmbx_lent" "$@"
  if ! "$llmbx_lent" --version > /dev/null 2>&1; then
    export LLMBX_OWN_LIBRARIES="${LD_LIBRARY_PATH-}"
    export LD_LIBRARY_PATH="/opt/llmbx/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  fi
fi
LLMBX_PROFILER_MARK=nsys_profile/.started-$LLMBX_RANK
NSYS_NVTX_PROFILER_REGISTER_ONLY=0
export LLMBX_PROFILER_MARK NSYS_NVTX_PROFILER_REGISTER_ONLY
for llmbx_try in 1 2 3; do
  rm -f "$LLMBX_PROFILER_MARK"
  "$@"
  llmbx_code=$?
  [ ! -e "$LLMBX_PROFILER_MARK" ] || break
  echo "llmbx: the profiler ended with exit code $llmbx_code before the program started (try $llmbx_try)" >&2
done
rm -f "$LLMBX_PROFILER_MARK"
exit "$llmbx_code"
