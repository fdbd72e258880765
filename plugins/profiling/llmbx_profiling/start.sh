# usage: start.sh HOST_PROFILER PROFILER… start.sh PROGRAM…     runs PROGRAM under PROFILER
# Retries if the profiler fails before the program starts: on a busy machine, nsys sometimes exits with "End of file" or
# "Agent launcher failed". HOST_PROFILER is the host's profiler, for images without one; empty if the host has none.
if [ "${LLMBX_PROFILER_MARK-}" ]; then
  : > "$LLMBX_PROFILER_MARK"
  unset LLMBX_PROFILER_MARK
  if [ "${LLMBX_OWN_LIBRARIES+set}" ]; then # restore the image's own library path for the program
    LD_LIBRARY_PATH=$LLMBX_OWN_LIBRARIES
    [ "$LD_LIBRARY_PATH" ] || unset LD_LIBRARY_PATH
    unset LLMBX_OWN_LIBRARIES
  fi
  exec "$@"
fi
llmbx_host_profiler=$1
shift
# A profiler that exists and cannot start (a host folder visible in the container, without its libraries) is not used.
if ! command -v "$1" > /dev/null || { [ -x "$llmbx_host_profiler" ] && ! "$1" --version > /dev/null 2>&1; }; then
  if [ ! -x "$llmbx_host_profiler" ]; then
    echo "llmbx: $1 is not on PATH in the environment of the ranks, and the host has none to mount into the image" >&2
    exit 127
  fi
  shift
  set -- "$llmbx_host_profiler" "$@"
  if ! "$llmbx_host_profiler" --version > /dev/null 2>&1; then
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
