#!/bin/bash
# pretrain_toy_mini_bf16_4_tp1_pp1_cp1_vp1_mbs1_gbs1: 4 rank(s) here
… local-plain.sh: # This script does not need llmbx or any other file of the m … umask go-w # only the owner of a run changes its files
log=log-pretrain_toy_mini_bf16_4_tp1_pp1_cp1_vp1_mbs1_gbs1.out
… local-plain.sh: job_id=$$ … begin
… local-plain.sh: cat > ./rank-train.sh << 'END_OF_FILE' || unwritten ./rank-t … [ "$LLMBX_LOCAL_RANK" -ne 0 ] || /bin/sh ./node.sh 2> /dev/n
set -- /bin/sh -c work
if { [ "$LLMBX_RANK" -eq 0 ] || [ "$LLMBX_RANK" -eq 2 ] || [ "$LLMBX_RANK" -eq 3 ]; }; then set -- nsys profile -o 'nsys_profile/rank%q{LLMBX_RANK}' "$@"; fi
… local-plain.sh: exec "$@" … enter train
run 4 rank_train
leave false

finish 0
