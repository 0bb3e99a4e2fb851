/* Open MPI's side of `skerry bench allreduce`.
 *
 * Rank 0 reads lines {"bytes":B,"iters":K} from standard input and answers
 * {"seconds":S}. All ranks reduce in place (MPI_IN_PLACE). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (;;) {
    long long order[2] = {0, 0};
    if (rank == 0) {
      char line[256];
      if (fgets(line, sizeof line, stdin) &&
          sscanf(line, "{\"bytes\":%lld,\"iters\":%lld}", &order[0], &order[1]) != 2)
        order[0] = 0;
    }
    /* Open MPI spins while it waits. Between tasks others are being measured. */
    MPI_Request wait;
    int done = 0;
    MPI_Ibcast(order, 2, MPI_LONG_LONG, 0, MPI_COMM_WORLD, &wait);
    for (MPI_Test(&wait, &done, MPI_STATUS_IGNORE); !done; MPI_Test(&wait, &done, MPI_STATUS_IGNORE))
      usleep(200);
    if (order[0] == 0) break;
    int count = (int)(order[0] / 4);
    float *buf = calloc(count, sizeof *buf);
    MPI_Allreduce(MPI_IN_PLACE, buf, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (long long i = 0; i < order[1]; i++)
      MPI_Allreduce(MPI_IN_PLACE, buf, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - start;
    if (rank == 0) {
      printf("{\"seconds\":%.9f}\n", seconds);
      fflush(stdout);
    }
    free(buf);
  }
  MPI_Finalize();
  return 0;
}
