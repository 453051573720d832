/* A program of OpenSHMEM: each processing element writes its number to all others, and reads one of its neighbour. It
 * ends without shmem_finalize, in which Open MPI 4.1.4 of Debian crashes under its own launcher, too. */
#include <shmem.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), count = shmem_n_pes();
    long *put = shmem_malloc(sizeof(long) * count), *own = shmem_malloc(sizeof(long)), sum = 0;
    *own = 100 + me;
    shmem_barrier_all();
    for (int other = 0; other < count; other++) shmem_long_p(put + me, 10 * me, other);
    shmem_barrier_all();
    for (int other = 0; other < count; other++) sum += put[other];
    printf("element %d of %d: put %ld, got %ld\n", me, count, sum, shmem_long_g(own, (me + 1) % count));
    fflush(stdout);
    shmem_barrier_all();
    shmem_global_exit(0);
    return 1;
}
