/* Open MPI's side of `skerry bench`.
 *
 * Rank 0 reads lines {"bytes":B,"iters":K,"op":"O"} from standard input and
 * answers {"seconds":S}. All-reduces are in place (MPI_IN_PLACE). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *ops[] = {"allreduce", "reducescatter", "allgather", "alltoall", "broadcast"};

static void once(int op, float *in, float *out, int count, int slot) {
  switch (op) {
  case 0:
    MPI_Allreduce(MPI_IN_PLACE, in, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    break;
  case 1:
    MPI_Reduce_scatter_block(in, out, slot, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    break;
  case 2:
    MPI_Allgather(in, slot, MPI_FLOAT, out, slot, MPI_FLOAT, MPI_COMM_WORLD);
    break;
  case 3:
    MPI_Alltoall(in, slot, MPI_FLOAT, out, slot, MPI_FLOAT, MPI_COMM_WORLD);
    break;
  default:
    MPI_Bcast(in, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, world;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  for (;;) {
    long long order[3] = {0, 0, 0};
    if (rank == 0) {
      char line[256], name[32] = "";
      if (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "{\"bytes\":%lld,\"iters\":%lld,\"op\":\"%31[a-z]", &order[0], &order[1], name) != 3)
          order[0] = 0;
        for (int i = 0; i < 5; i++)
          if (strcmp(name, ops[i]) == 0) order[2] = i;
      }
    }
    /* Open MPI spins while it waits. Between tasks others are being measured. */
    MPI_Request wait;
    int done = 0;
    MPI_Ibcast(order, 3, MPI_LONG_LONG, 0, MPI_COMM_WORLD, &wait);
    for (MPI_Test(&wait, &done, MPI_STATUS_IGNORE); !done; MPI_Test(&wait, &done, MPI_STATUS_IGNORE))
      usleep(200);
    if (order[0] == 0) break;
    int count = (int)(order[0] / 4), slot = count / world > 0 ? count / world : 1;
    size_t room = count > slot * world ? count : slot * world;
    float *in = calloc(room, sizeof *in), *out = calloc(room, sizeof *out);
    memset(out, 0, room * sizeof *out); /* touched, as the others' is */
    once((int)order[2], in, out, count, slot);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (long long i = 0; i < order[1]; i++) once((int)order[2], in, out, count, slot);
    double seconds = MPI_Wtime() - start;
    if (rank == 0) {
      printf("{\"seconds\":%.9f}\n", seconds);
      fflush(stdout);
    }
    free(in);
    free(out);
  }
  MPI_Finalize();
  return 0;
}
