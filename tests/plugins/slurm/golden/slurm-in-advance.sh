#!/bin/bash
#SBATCH --job-name=pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --output=sbatch_pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1_%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue
# pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1: 2 rank(s) on 2 node(s)
… slurm-full.sh: # This script does not need llmbx or any other file of the m … echo "run folder: $folder"
  exec bash "$folder/run.sh" >> "$folder/"sbatch_pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1.out 2>&1 ;;
esac
umask go-w # only the owner of a run changes its files
log=log-pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1.out
… slurm-full.sh: job_id=${SLURM_JOB_ID-} … export XLA_FLAGS='--a --b=1'
  exec srun --export=ALL --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 \
    '--output=\log-pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1.out' --open-mode=append --wait=60 --label \
… slurm-full.sh: --container-image=/install/images/a.sqsh --container-name="$ … exec srun --export=ALL --nodes=1 --ntasks=1 --ntasks-per-nod
    '--output=\log-pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1.out' --open-mode=append --wait=60 \
… slurm-full.sh: --container-image=/install/images/a.sqsh --container-name="$ (2) … rank_train() {
  exec srun --export=ALL --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 \
    '--output=\log-pretrain_toy_mini_bf16_2_tp1_pp1_cp1_vp1_mbs1_gbs1.out' --open-mode=append --wait=60 --label \
    --container-image=/install/images/a.sqsh --container-name="$job_name" /bin/sh "$run_dir"/rank-train.sh
}

… slurm-full.sh: # Sets the boost slider of the GPUs; a failure is only a war … if [ "$LLMBX_RANK" -eq 0 ]; then set -- nsys profile -o 'nsy
… slurm-full.sh: exec "$@" … set -- /bin/sh -c convert
… slurm-full.sh: exec "$@" (2) … set -- /bin/sh -c train
… slurm-plain.sh: exec "$@" … export LLMBX_MASTER_ADDR LLMBX_MASTER_PORT
… slurm-full.sh: set_vboost 2 1 … forget 'nsys_profile/*.nsys-rep'
  run 2 rank_collect
… slurm-full.sh: makes 'nsys_profile/*.nsys-rep' … needs /cache/profile.pbtxt
run 2 rank_train
leave false

finish 0
