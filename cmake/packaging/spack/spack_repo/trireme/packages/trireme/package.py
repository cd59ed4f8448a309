# SPDX-License-Identifier: Apache-2.0
try:  # where Spack 1.0 and newer keep it
    from spack_repo.builtin.build_systems.cmake import CMakePackage
except ImportError:
    pass

from spack.package import *


class Trireme(CMakePackage):
    """Trains transformers on clusters: one C++20 binary, one text deck, MPI, HDF5, Slurm."""

    homepage = "https://trireme.invalid"
    # No release has a place to be fetched from yet: `spack dev-build trireme@main`, or
    # `spack develop --path SOURCE trireme@main`, in a checkout.
    version("main")

    license("Apache-2.0", checked_by="trireme")

    variant("cuda", default=False, description="NVIDIA GPUs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    depends_on("hdf5@1.10.5:~mpi+hl")
    depends_on("onednn@2.6:")
    depends_on("kokkos@3.4:+serial")
    depends_on("tomlplusplus")
    depends_on("cli11@2:")
    depends_on("fmt@9:")
    depends_on("spdlog@1.10:")
    depends_on("nlohmann-json@3.11:")
    depends_on("xxhash@0.8:")
    depends_on("sentencepiece")
    depends_on("pcre2")
    depends_on("utf8proc")
    depends_on("py-jinja2@3:", type="run")
    depends_on("cuda@13:", when="+cuda")
    depends_on("cudnn@9:", when="+cuda")
    depends_on("nccl@2.28:", when="+cuda")
    depends_on("googletest+gmock", type="test")

    conflicts("%gcc@:10", msg="C++20 as GCC 11 knows it is needed")
    requires("target=x86_64_v3:", msg="AVX2 is needed")

    generator("ninja")

    def cmake_args(self):
        # Spack's compiler wrapper adds the target's flags; this sets the refusal on other CPUs.
        arch = "x86-64-v4" if self.spec.satisfies("target=x86_64_v4:") else "x86-64-v3"
        return [
            self.define("TRIREME_ARCH", arch),
            self.define("TRIREME_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
            self.define("MPI_CXX_COMPILER", self.spec["mpi"].mpicxx),
            self.define("BUILD_TESTING", self.run_tests),
            self.define("CHART_JS", "OFF"),  # `trireme report` says that it is missing
        ]
