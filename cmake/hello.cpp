// Do two processes started by mpiexec find each other? Exit code 2: each believes to be alone.
#include <mpi.h>

#include <cstdio>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0, sum = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int mine = rank + 1;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    for (int i = 0; i < length; ++i)
      if (version[i] == '\n') version[i] = version[length = i] = '\0';
    std::printf("a world of %d, ranks add up to %d: %s\n", size, sum, version);
  }
  MPI_Finalize();
  return size == 2 && sum == 3 ? 0 : 2;
}
