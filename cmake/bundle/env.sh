# Sourced by what starts a program of the bundle, with `here` set to its folder. The bundle's own libraries are found
# without any help; this finds those of CUDA: beside Python packages, in a toolkit, or where LD_LIBRARY_PATH says.
search=
for python in python3 python; do
  command -v "$python" > /dev/null || continue
  search=$("$python" - << 'PYTHON'
import glob, site, sys, sysconfig
places = [sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"], *site.getsitepackages()]
if site.ENABLE_USER_SITE:
    places.append(site.getusersitepackages())
found = [d for p in [*places, *sys.path] if p for d in sorted(glob.glob(p + "/nvidia/*/lib"))]
print(":".join(dict.fromkeys(found)))
PYTHON
  )
  [ -n "$search" ] && break
done
toolkit=${CUDA_HOME:-/usr/local/cuda}
for folder in "$toolkit/lib64" "$toolkit/lib" /usr/local/nvidia/lib64; do
  [ -d "$folder" ] && search=$search${search:+:}$folder
done
# What somebody chose comes first.
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}${LD_LIBRARY_PATH:+${search:+:}}$search
export LD_LIBRARY_PATH

# The programs need none of NVIDIA's libraries before a device answers; tests of a GPU, and a machine that has one, do.
asked() {
  ldd "$here/trireme"
  if [ -e /dev/nvidiactl ] || [ "${for_gpu:-}" ]; then ldd "$here/lib/libtrireme_cuda.so"; fi
}
missing=$(asked 2> /dev/null | sed -n 's/^[[:space:]]*\([^ ]*\) => not found.*/\1/p' | sort -u | tr '\n' ' ')
if [ -n "$missing" ]; then
  echo "trireme: not found: $missing" >&2
  case $missing in
  *libcud* | *libcublas* | *libnvrtc* | *libnccl*)
    echo "The bundle holds no libraries of NVIDIA's. It needs CUDA 13 with cuBLAS, cuDNN 9 and NCCL: install the Python packages" >&2
    echo "nvidia-cublas nvidia-cuda-runtime nvidia-cuda-nvrtc nvidia-cudnn-cu13 nvidia-nccl-cu13, or name their folders in LD_LIBRARY_PATH." >&2
    ;;
  esac
  echo "It looked in: ${LD_LIBRARY_PATH:-nothing}" >&2
  exit 1
fi
