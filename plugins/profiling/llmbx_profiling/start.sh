# usage: start.sh HOST_PROFILER PROFILER… start.sh PROGRAM…     runs PROGRAM under PROFILER
# Retries if the profiler fails before the program starts: on a busy machine, nsys sometimes exits with "End of file" or
# "Agent launcher failed". If it fails later ("Connection to Agent lost", exit code 0), the program goes on without it.
# If nsys leaves a stream instead of a report, the stream is imported again: on a busy machine, its importer sometimes
# fails (about 1 of 600 imports with 2023.4.4), nsys's exit code is 0 then, and the next import succeeds.
# The exit code is that of the program, which the mark holds once it has ended; until then, it holds its process id.
# HOST_PROFILER is the host's profiler, for images without one; empty if the host has none.
if [ "${LLMBX_PROFILER_MARK-}" ]; then
  llmbx_mark=$LLMBX_PROFILER_MARK
  unset LLMBX_PROFILER_MARK
  echo "runs $$" > "$llmbx_mark" # not with mv: without its agent, nsys ends every new process
  if [ "${LLMBX_OWN_LIBRARIES+set}" ]; then # restore the image's own library path for the program
    LD_LIBRARY_PATH=$LLMBX_OWN_LIBRARIES
    [ "$LD_LIBRARY_PATH" ] || unset LD_LIBRARY_PATH
    unset LLMBX_OWN_LIBRARIES
  fi
  llmbx_program='' llmbx_stopped=''
  trap 'llmbx_stopped=yes; kill -TERM "$llmbx_program" 2> /dev/null' TERM # nsys stops its program with TERM
  "$@" & # not in the foreground, where the trap would wait for the program
  llmbx_program=$!
  [ ! "$llmbx_stopped" ] || kill -TERM "$llmbx_program"
  wait "$llmbx_program"
  llmbx_code=$?
  while kill -0 "$llmbx_program" 2> /dev/null; do # a signal interrupts wait
    wait "$llmbx_program"
    llmbx_code=$?
  done
  echo "ended $llmbx_code" > "$llmbx_mark"
  exit "$llmbx_code"
fi
llmbx_host_profiler=$1
shift
# A profiler that exists and cannot start (a host folder visible in the container, without its libraries) is not used.
if ! command -v "$1" > /dev/null || { [ -x "$llmbx_host_profiler" ] && ! "$1" --version > /dev/null 2>&1; }; then
  if [ ! -x "$llmbx_host_profiler" ]; then
    echo "llmbx: $1 is not on PATH in the environment of the ranks, and the host has none to mount into the image:" \
      "install Nsight Systems, or use another profiler (llmbx profile --tool)" >&2
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
LLMBX_PROFILER_NVTX=$PWD/nsys_profile/nvtx-$LLMBX_RANK.json
rm -f "nsys_profile/ended-early-$LLMBX_RANK" "$LLMBX_PROFILER_NVTX"
NSYS_NVTX_PROFILER_REGISTER_ONLY=0
export LLMBX_PROFILER_MARK LLMBX_PROFILER_NVTX NSYS_NVTX_PROFILER_REGISTER_ONLY
for llmbx_try in 1 2 3; do
  rm -f "$LLMBX_PROFILER_MARK"
  "$@"
  llmbx_code=$?
  [ ! -e "$LLMBX_PROFILER_MARK" ] || break
  echo "llmbx: the profiler ended with exit code $llmbx_code before the program started (try $llmbx_try)" >&2
done
[ -e "$LLMBX_PROFILER_MARK" ] || exit "$llmbx_code"
program_runs() {
  read -r llmbx_state llmbx_value < "$LLMBX_PROFILER_MARK" # nothing while it is written
  [ "$llmbx_state" != runs ] || llmbx_program=$llmbx_value
  [ "$llmbx_state" != ended ] && kill -0 "$llmbx_program" 2> /dev/null
}
if program_runs; then
  echo "llmbx: the profiler ended with exit code $llmbx_code while the program runs, which goes on without it" >&2
  echo "$llmbx_code" > "nsys_profile/ended-early-$LLMBX_RANK" # for the finding on the missing profile
  trap 'kill -TERM "$llmbx_program" 2> /dev/null' TERM
  while program_runs; do sleep 0.2; done
fi
import_again() {
  llmbx_folder=$(readlink -f "$(command -v "$1")")
  while [ $# -gt 0 ] && [ "$1" != --output ]; do shift; done
  llmbx_name=$(printf %s "${2-}" | sed "s/%q{LLMBX_NODE_RANK}/${LLMBX_NODE_RANK-}/g; s/%q{LLMBX_RANK}/$LLMBX_RANK/g
    s/%q{LLMBX_LOCAL_RANK}/${LLMBX_LOCAL_RANK-}/g; s/%q{SLURM_JOB_ID}/${SLURM_JOB_ID-}/g")
  [ -e "$llmbx_name.qdstrm" ] && [ ! -e "$llmbx_name.nsys-rep" ] || return 0
  while [ "$llmbx_folder" ]; do
    llmbx_folder=${llmbx_folder%/*}
    for llmbx_importer in "$llmbx_folder"/host-*/QdstrmImporter "$llmbx_folder"/nsight-systems/host-*/QdstrmImporter; do
      [ ! -x "$llmbx_importer" ] || break 2
    done
  done
  [ -x "$llmbx_importer" ] || return 0 # an image without nsys's host part: llmbx imports the stream after the run
  for llmbx_try in 1 2 3; do
    echo "llmbx: nsys left a stream instead of a report; importing it again (try $llmbx_try)" >&2
    if "$llmbx_importer" --input-file "$llmbx_name.qdstrm" --output-file "$llmbx_name.nsys-rep" > /dev/null; then
      rm -f "$llmbx_name.qdstrm" # as nsys does
      return
    fi
    rm -f "$llmbx_name.nsys-rep" # what a failed import leaves is no report
  done
}
import_again "$@"
read -r llmbx_state llmbx_value < "$LLMBX_PROFILER_MARK"
rm -f "$LLMBX_PROFILER_MARK"
case $llmbx_state in
  ended) exit "$llmbx_value" ;;
  *) exit $((llmbx_code ? llmbx_code : 137)) ;; # killed before it could write its exit code
esac
