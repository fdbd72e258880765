… local-full.sh: #!/bin/bash … set -u
run_dir=/install/workloads/pretrain_toy/experiments/x/x_1/x
… local-full.sh: umask go-w # only the owner of a run changes its files … export XLA_FLAGS='--a --b=1'
  /bin/sh "$run_dir"/rank-collect.sh
}

rank_convert() {
  /bin/sh "$run_dir"/rank-convert.sh
}

… local-plain.sh: rank_train() { … begin
mkdir -p -- ./bin
base64 -d > ./bin/code << 'END_OF_FILE' || unwritten ./bin/code
AAE=
END_OF_FILE
… local-full.sh: cat > ./rank-collect.sh << 'END_OF_FILE' || unwritten ./rank … finish 0
