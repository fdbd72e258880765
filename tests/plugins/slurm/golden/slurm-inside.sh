#!/bin/bash
# pretrain_toy_mini_bf16_8_tp1_pp1_cp1_vp1_mbs1_gbs1: 8 rank(s) on 2 node(s)
… slurm-plain.sh: # This script does not need llmbx or any other file of the m … umask go-w # only the owner of a run changes its files
log=log-pretrain_toy_mini_bf16_8_tp1_pp1_cp1_vp1_mbs1_gbs1.out
job_id=4711
mkdir -p "$run_dir" && cd "$run_dir" || exit 1
export SLURM_JOB_ID=4711
export SLURM_JOB_NODELIST=n2,n3

… slurm-plain.sh: # Functions of every run script: enter and leave phases, and … rank_train() {
  exec srun --export=ALL --nodes=2 --ntasks=8 --ntasks-per-node=4 --kill-on-bad-exit=1 \
    '--output=\log-pretrain_toy_mini_bf16_8_tp1_pp1_cp1_vp1_mbs1_gbs1.out' --open-mode=append --cpus-per-task=2 \
    --nodelist=n2,n3 --overlap --gpus-per-node=4 --label /bin/sh "$run_dir"/rank-train.sh
}

rank_last() {
  exec srun --export=ALL --nodes=1 --ntasks=1 --ntasks-per-node=1 --kill-on-bad-exit=1 \
    '--output=\log-pretrain_toy_mini_bf16_8_tp1_pp1_cp1_vp1_mbs1_gbs1.out' --open-mode=append --cpus-per-task=2 \
    --nodelist=n2 --overlap --gpus-per-node=4 /bin/sh "$run_dir"/rank-last.sh
}

archive_previous_start
begin

… slurm-plain.sh: cat > ./rank-train.sh << 'END_OF_FILE' || unwritten ./rank-t … [ "$LLMBX_LOCAL_RANK" -ne 0 ] || /bin/sh ./node.sh 2> /dev/n
set -- /bin/sh -c work
exec "$@"
END_OF_FILE
cat > ./rank-last.sh << 'END_OF_FILE' || unwritten ./rank-last.sh
#!/bin/sh
# Runs one rank of the phase "last": determines which rank it is and starts the program.
… slurm-plain.sh: cd "${0%/*}" || exit 1 … [ "$LLMBX_LOCAL_RANK" -ne 0 ] || /bin/sh ./node.sh 2> /dev/n
set -- /bin/sh -c last
… slurm-plain.sh: exec "$@" … LLMBX_MASTER_ADDR=$(first_address)
LLMBX_MASTER_PORT=$((10000 + $$ * 8 % 20000))
export LLMBX_MASTER_ADDR LLMBX_MASTER_PORT

enter train
run 8 rank_train
leave false

enter last
run 1 rank_last
leave false

finish 0
