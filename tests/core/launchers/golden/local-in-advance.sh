… local-plain.sh: #!/bin/bash … set -u
… local-full.sh: run_dir=/install/workloads/pretrain_toy/experiments/x/x_TIME … umask go-w # only the owner of a run changes its files
… local-plain.sh: log=log-pretrain_toy_mini_bf16_1_tp1_pp1_cp1_vp1_mbs1_gbs1.o … begin
… local-plain.sh: cat > ./rank-train.sh << 'END_OF_FILE' || unwritten ./rank-t … finish 0
