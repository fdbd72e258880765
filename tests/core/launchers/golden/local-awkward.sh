… local-plain.sh: #!/bin/bash … rank_train() {
  export SPACED=' a  b '
  export NAME='it'"'"'s $HOME & "more";
and more'
  export LEADING=--dash
… local-plain.sh: /bin/sh "$run_dir"/rank-train.sh … begin
… local-plain.sh: cat > ./rank-train.sh << 'END_OF_FILE' || unwritten ./rank-t … [ "$LLMBX_LOCAL_RANK" -ne 0 ] || /bin/sh ./node.sh 2> /dev/n
set -- python3 'it'"'"'s.py' --text 'a "b" & c; $HOME `date`' 'two
lines' '' -x
… local-plain.sh: exec "$@" … finish 0
