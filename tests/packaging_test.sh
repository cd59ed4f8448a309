#!/bin/sh
# Builds what cmake/packaging describes with each of Spack, Apptainer, podman and buildah that is there, and asks each
# result for its version and for the plan of a deck.
#   tests/packaging_test.sh FOLDER   FOLDER/packaging is replaced; half an hour or more a tool on 2 cores
# Ends with 77 where none of them is there.
set -u
here=$(cd "$(dirname "$0")" && pwd)
source=$(dirname "$here")
[ $# -eq 1 ] || { echo "packaging: the folder to work in is missing" >&2; exit 2; }
work=$(mkdir -p "$1" && cd "$1" && pwd)/packaging || exit 1
rm -rf "$work" && mkdir -p "$work" || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

there() {
  command -v "$1" > /dev/null 2>&1
}
wrong() {
  tail -n 40 "$work/said"
  echo "packaging: WRONG: $*"
  exit 1
}
# What was committed, as a recipe takes all of its folder.
git clone -q "$source" "$work/trireme" || { echo "packaging: needs a git checkout"; exit 1; }
cd "$work/trireme" || exit 1

# NAME COMMAND..: COMMAND with arguments is the trireme that was built.
works() {
  name=$1
  shift
  "$@" --version > "$work/said" 2>&1 || wrong "$name: trireme --version"
  grep -q '^trireme ' "$work/said" || wrong "$name: no version is said"
  "$@" plan inputs/quickstart.toml model.vocab=256 > "$work/said" 2>&1 || wrong "$name: trireme plan"
  built="$built $name"
}

# A recipe begins with an image of Debian, which a registry has to give.
base=docker.io/library/debian:bookworm
has_base() {
  "$@" > "$work/said" 2>&1 && return 0
  echo "packaging: $1 is left out: $base cannot be had"
  return 1
}

built=
if there spack; then
  export SPACK_USER_CONFIG_PATH="$work/spack" SPACK_DISABLE_LOCAL_CONFIG=yes
  spack repo add cmake/packaging/spack/spack_repo/trireme > "$work/said" 2>&1 || wrong "spack repo add"
  spack dev-build trireme@main > "$work/said" 2>&1 || wrong "spack dev-build"
  works spack "$(spack location -i trireme@main)/bin/trireme"
fi
if there apptainer && has_base apptainer pull --force "$work/base.sif" "docker://$base"; then
  apptainer build "$work/trireme.sif" cmake/packaging/trireme.def > "$work/said" 2>&1 || wrong "apptainer build"
  works apptainer apptainer run --bind "$PWD" "$work/trireme.sif"
fi
for tool in podman buildah; do
  there $tool || continue
  $tool inspect --type image $base > /dev/null 2>&1 || has_base $tool pull -q $base || continue
  $tool build -f cmake/packaging/Containerfile -t trireme-test . > "$work/said" 2>&1 || wrong "$tool build"
  if [ $tool = podman ]; then
    works podman podman run --rm -v "$PWD:/work" -w /work trireme-test
    podman rmi -f trireme-test > /dev/null 2>&1
  else
    container=$(buildah from trireme-test) || wrong "buildah from"
    works buildah buildah run -v "$PWD:/work" --workingdir /work "$container" -- trireme
    buildah rm "$container" > /dev/null 2>&1
    buildah rmi -f trireme-test > /dev/null 2>&1
  fi
  break
done
[ "$built" ] || { echo "packaging: skipped: none of spack, apptainer, podman and buildah can be used"; exit 77; }
echo "packaging:$built: built, with version and plan"
