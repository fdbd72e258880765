case $run_dir in *_TIMESTAMP/*) # every start makes a folder of its own and continues as a copy of this script in it
  name=${run_dir##*/} folder=${run_dir%_TIMESTAMP/*} stamp=$(date +%s)
  umask o-w # a group may share the folder of all runs
  mkdir -p "${folder%/*}" || exit 1
  umask go-w
  until mkdir "${folder}_$stamp" 2> /dev/null; do
    [ -e "${folder}_$stamp" ] || { echo "cannot create ${folder}_$stamp" >&2; exit 1; }
    stamp=$((stamp + 1))
  done
  folder=${folder}_$stamp/$name
  mkdir "$folder" && sed "s/\(${name//./\\.}\)_TIMESTAMP/\1_$stamp/g" "$0" > "$folder/run.sh" || exit 1
  chmod +x "$folder/run.sh"
  echo "run folder: $folder"
  exec bash "$folder/run.sh"INTO ;;
esac
