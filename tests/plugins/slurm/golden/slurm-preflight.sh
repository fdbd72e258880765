#!/bin/bash
#SBATCH --job-name=pretrain_toy_mini_bf16_16_tp1_pp1_cp1_vp1_mbs1_gbs1
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --output="\\sbatch_pretrain_toy_mini_bf16_16_tp1_pp1_cp1_vp1_mbs1_gbs1.out"
… slurm-full.sh: #SBATCH --open-mode=append … #SBATCH --no-requeue
# pretrain_toy_mini_bf16_16_tp1_pp1_cp1_vp1_mbs1_gbs1: 16 rank(s) on 2 node(s)
… slurm-plain.sh: # This script does not need llmbx or any other file of the m … umask go-w # only the owner of a run changes its files
log=log-pretrain_toy_mini_bf16_16_tp1_pp1_cp1_vp1_mbs1_gbs1.out
… slurm-plain.sh: job_id=${SLURM_JOB_ID-} … rank_train() {
  export HF_HOME=/hf
  exec srun --export=ALL --nodes=2 --ntasks=16 --ntasks-per-node=8 --kill-on-bad-exit=1 \
    '--output=\log-pretrain_toy_mini_bf16_16_tp1_pp1_cp1_vp1_mbs1_gbs1.out' --open-mode=append --label \
    '--container-image=/install/images/a b.sqsh' --container-env=NCCL_DEBUG,LLMBX_RANK --mpi=pmix /bin/sh \
    "$run_dir"/rank-train.sh
}

… slurm-full.sh: # Checks every node before the framework starts; a faulty no … rank_preflight() {
  export HF_HOME=/hf
  exec srun --export=ALL --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=0 --output=preflight.out \
    --open-mode=append --wait=0 --time=10 --label '--container-image=/install/images/a b.sqsh' \
    --container-env=NCCL_DEBUG,LLMBX_RANK --mpi=pmix /bin/sh "$run_dir"/rank-preflight.sh
}

archive_previous_start
begin

… slurm-plain.sh: cat > ./rank-train.sh << 'END_OF_FILE' || unwritten ./rank-t … [ "$LLMBX_LOCAL_RANK" -ne 0 ] || /bin/sh ./node.sh 2> /dev/n
set -- /bin/sh -c work
… slurm-full.sh: exec "$@" (3) … [ "$LLMBX_LOCAL_RANK" -ne 0 ] || /bin/sh ./node.sh 2> /dev/n
set -- /bin/sh preflight.sh meta-llama/Llama-3.1-8B
… slurm-full.sh: exec "$@" (4) … check_nodes 2
enter train
run 16 rank_train
leave false

finish 0
