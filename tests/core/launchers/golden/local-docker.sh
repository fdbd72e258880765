… local-plain.sh: #!/bin/bash … rank_train() {
  export NCCL_DEBUG=INFO
… local-full.sh: export DOCKER_HOST='unix:///run/my docker.sock' (3) … begin
… local-plain.sh: cat > ./rank-train.sh << 'END_OF_FILE' || unwritten ./rank-t … [ "$LLMBX_LOCAL_RANK" -ne 0 ] || /bin/sh ./node.sh 2> /dev/n
set -- /bin/sh -c work
… local-plain.sh: exec "$@" … finish 0
