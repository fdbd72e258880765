#!/bin/sh
# usage: install.sh FOLDER SUITE     unpack the distribution's Nsight Systems (bookworm: 2022.4, trixie: 2023.4) in FOLDER
# The packages are proprietary: they are fetched where the tests run, and are no part of this repository. Installing
# them whole would bring a driver and more; the tests need the two packages, one library, and three links set right.
set -eu
folder=$1 suite=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/debian.sources | head -n 1)
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
cat > "$work/non-free.sources" << END
Types: deb
URIs: $mirror
Suites: $suite
Components: non-free
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
fetch() {
  apt-get -q -o Dir::Etc::SourceList="$work/non-free.sources" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@" > /dev/null
}
ldconfig -p | grep -q libssh.so.4 ||
  apt-get -q install -y --no-install-recommends libssh-4 > /dev/null ||
  { apt-get -q update > /dev/null && apt-get -q install -y --no-install-recommends libssh-4 > /dev/null; }
fetch update
(cd "$work" && fetch download nsight-systems nsight-systems-target)
mkdir -p "$folder.part"
for package in "$work"/*.deb; do dpkg-deb -x "$package" "$folder.part"; done
rm -rf "$folder.part/usr/share"

target=$folder.part/usr/lib/x86_64-linux-gnu/nsight-systems
host=$folder.part/usr/lib/nsight-systems/host-linux-x64
ln -sfn ../../nsight-systems/host-linux-x64 "$target/host-linux-x64" # where nsys looks for the importer of its reports
rm -f "$host/libssh.so.4"                                            # a link to nowhere in this package
ln -sfn "$(ldconfig -p | sed -n 's/.*libssh.so.4 .*=> //p' | head -n 1)" "$host/libssh.so"
"$folder.part/usr/bin/nsys" --version > /dev/null
mv "$folder.part" "$folder"
