# Describe this node, for comparisons: the machine that submitted the job may differ.
{
  echo "host $LLMBX_NODE_NAME"
  echo "hostname $(uname -n)"
  echo "rank $LLMBX_RANK"
  echo "kernel $(uname -r)"
  echo "cores $(nproc --all)"
  while IFS=: read -r key value; do
    case $key in "model name"*) echo "cpu$value" && break ;; esac
  done < /proc/cpuinfo
  command -v nvidia-smi > /dev/null && timeout -k 1 30 nvidia-smi --format=csv,noheader,nounits \
    --query-gpu=QUERY |
    while read -r line; do echo "gpu $line"; done
} > "node-$LLMBX_NODE_RANK.txt"
