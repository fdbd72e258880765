#!/bin/bash
#SBATCH --job-name=pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --output="\\sbatch_pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1.out"
#SBATCH --open-mode=append
#SBATCH --no-requeue
# pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1: 2 rank(s) on 2 node(s)
… slurm-plain.sh: # This script does not need llmbx or any other file of the m … umask go-w # only the owner of a run changes its files
log=log-pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1.out
… slurm-plain.sh: job_id=${SLURM_JOB_ID-} … ((status == 0)) || finish "$status"
rank_collect() {
  export XLA_FLAGS='--a --b=1'
  exec srun --export=ALL --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 \
    '--output=\log-pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1.out' --open-mode=append --label /bin/sh \
    "$run_dir"/rank-collect.sh
}

rank_convert() {
  exec srun --export=ALL --nodes=1 --ntasks=1 --ntasks-per-node=1 --relative=0 --kill-on-bad-exit=1 \
    '--output=\log-pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1.out' --open-mode=append /bin/sh \
    "$run_dir"/rank-convert.sh
}

rank_train() {
  exec srun --export=ALL --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 \
    '--output=\log-pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1.out' --open-mode=append --label /bin/sh \
… slurm-plain.sh: "$run_dir"/rank-train.sh … begin
… slurm-full.sh: cat > ./rank-collect.sh << 'END_OF_FILE' || unwritten ./rank … if [ "$LLMBX_RANK" -eq 0 ]; then set -- nsys profile -o 'nsy
… slurm-full.sh: exec "$@" … set -- /bin/sh -c convert
… slurm-full.sh: exec "$@" (2) … set -- /bin/sh -c train
… slurm-plain.sh: exec "$@" … export LLMBX_MASTER_ADDR LLMBX_MASTER_PORT
enter collect
if ! skipped_for /cache/profile.pbtxt; then
  forget 'nsys_profile/*.nsys-rep'
  run 2 rank_collect
… slurm-full.sh: makes 'nsys_profile/*.nsys-rep' … needs /cache/profile.pbtxt
run 2 rank_train
leave false

finish 0
