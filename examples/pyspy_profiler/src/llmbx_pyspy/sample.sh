# usage: sample.sh COMMAND RATE PROGRAM...      run PROGRAM, and sample its Python stacks with py-spy
# py-spy attaches to the program: it would hide the exit code of a program that it started itself.
command=$1 rate=$2; shift 2
out=pyspy/rank$LLMBX_RANK
rm -f "$out".*
{
  while [ ! -s "$out.pid" ]; do sleep 0.05; done
  read -r pid < "$out.pid"
  until "$command" record --pid "$pid" --subprocesses --nolineno --format raw --rate "$rate" --output "$out.txt"; do
    kill -0 "$pid" 2> /dev/null || break
    sleep 0.2 # the program is still the shell that becomes it, or py-spy is not allowed to attach
  done
} < /dev/null > "$out.log" 2>&1 &
sh -c 'echo $$ > "$0.pid"; exec "$@"' "$out" "$@"
code=$?
wait
rm -f "$out.pid"
exit $code
