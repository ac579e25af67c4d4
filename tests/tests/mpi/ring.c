/* An MPI program: a number goes around all ranks, each of which adds its own; and who shares a node is told. */
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size, local, sum = 0;
    MPI_Comm node;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank > 0) {
        MPI_Recv(&sum, 1, MPI_INT, rank - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += rank;
    }
    if (size > 1) {
        MPI_Send(&sum, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Recv(&sum, 1, MPI_INT, size - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &local);
    printf("ring %d of %d, sum %d, %d share a node\n", rank, size, sum, local);
    MPI_Finalize();
    return 0;
}
