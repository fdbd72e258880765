#!/bin/bash
#SBATCH --job-name=pretrain_toy_mini_bf16_16_tp1_pp1_cp1_vp1_mbs1_gbs1
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --output="\\sbatch_pretrain_toy_mini_bf16_16_tp1_pp1_cp1_vp1_mbs1_gbs1.out"
#SBATCH --open-mode=append
#SBATCH --account=bench
#SBATCH --comment="it's a \"test\" \\ #1"
#SBATCH --constraint=gpu&memory
#SBATCH --cpus-per-task=12
#SBATCH --exclude=node009
#SBATCH --exclusive
#SBATCH --gpus-per-node=8
#SBATCH --mem=0
#SBATCH --no-requeue
#SBATCH --nodelist=node001,node002
#SBATCH --partition=gpu
#SBATCH --qos=high
#SBATCH --reservation=mine
#SBATCH --segment=16
#SBATCH --time=01:35:00
# pretrain_toy_mini_bf16_16_tp1_pp1_cp1_vp1_mbs1_gbs1: 16 rank(s) on 2 node(s)
… slurm-plain.sh: # This script does not need llmbx or any other file of the m … umask go-w # only the owner of a run changes its files
log=log-pretrain_toy_mini_bf16_16_tp1_pp1_cp1_vp1_mbs1_gbs1.out
… slurm-plain.sh: job_id=${SLURM_JOB_ID-} … rank_train() {
  export NCCL_DEBUG=INFO
  exec srun --export=ALL --nodes=2 --ntasks=16 --ntasks-per-node=8 --kill-on-bad-exit=1 \
    '--output=\log-pretrain_toy_mini_bf16_16_tp1_pp1_cp1_vp1_mbs1_gbs1.out' --open-mode=append --cpus-per-task=12 \
    --wait=60 --label '--container-image=/install/images/a b.sqsh' --container-env=NCCL_DEBUG,LLMBX_RANK \
    --mpi=pmix /bin/sh "$run_dir"/rank-train.sh
}

archive_previous_start
begin

… slurm-plain.sh: cat > ./rank-train.sh << 'END_OF_FILE' || unwritten ./rank-t … [ "$LLMBX_LOCAL_RANK" -ne 0 ] || /bin/sh ./node.sh 2> /dev/n
set -- /bin/sh -c work
… slurm-full.sh: # Bind the rank to the NUMA node of its GPU or, if the machi … node=$(cat "/sys/bus/pci/devices/${bus#????}/numa_node" 2> /
can_bind "$node" || { by=recipe node=$((LLMBX_LOCAL_RANK / 4)); can_bind "$node"; } || by=''
… slurm-full.sh: if [ -n "$by" ]; then (3) … END_OF_FILE (2)
set +u
module load slurm-extras
set -u
umask go-w
cd "$run_dir" || exit 1

… slurm-plain.sh: [ -n "${SLURM_JOB_ID-}" ] || fail 2 "submit this script with … enter train
run 16 rank_train
leave false

finish 0
