# usage: start.sh PROFILER… start.sh PROGRAM…     starts PROGRAM under PROFILER, again where the profiler fails before that
# nsys sometimes ends with "End of file" or "Agent launcher failed" on a busy machine, and the program was never started.
if [ "${LLMBX_PROFILER_MARK-}" ]; then
  : > "$LLMBX_PROFILER_MARK"
  unset LLMBX_PROFILER_MARK
  exec "$@"
fi
LLMBX_PROFILER_MARK=nsys_profile/.started-$LLMBX_RANK
export LLMBX_PROFILER_MARK
for llmbx_try in 1 2 3; do
  rm -f "$LLMBX_PROFILER_MARK"
  "$@"
  llmbx_code=$?
  [ ! -e "$LLMBX_PROFILER_MARK" ] || break
  echo "llmbx: the profiler ended with exit code $llmbx_code before the program started (try $llmbx_try)" >&2
done
rm -f "$LLMBX_PROFILER_MARK"
exit "$llmbx_code"
