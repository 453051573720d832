/* An MPI program that hands its communicator over: each rank becomes an id, and any of them makes calls down a tree.
 *
 *     mpicc mpi.c $(pkg-config --cflags --libs chained_gpc) -o mpi && mpiexec -n 4 ./mpi */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include <chained_gpc.h>

static int must(int status) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", cgpc_strerror(status), cgpc_last_message());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return status;
}

static int allgather(const void *mine, size_t length, void *all, void *arg) {
    MPI_Comm communicator = *(MPI_Comm *)arg;
    return MPI_Allgather((void *)mine, (int)length, MPI_BYTE, all, (int)length, MPI_BYTE, communicator) != MPI_SUCCESS;
}

static int barrier(void *arg) { return MPI_Barrier(*(MPI_Comm *)arg) != MPI_SUCCESS; }

/* Each rank replies with its name. The names are joined in the order of the ids: the caller first. */
static int name(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    char text[32];
    unsigned me = 0;
    (void)arg;
    must(cgpc_request_me(request, &me));
    snprintf(text, sizeof text, "rank %u", me);
    return cgpc_reply_set_data(reply, text, strlen(text));
}

static int join(const cgpc_request *request, const cgpc_child *child, cgpc_reply *own, void *arg) {
    (void)request;
    (void)arg;
    must(cgpc_reply_append(own, ", ", 2));
    return cgpc_reply_append(own, child->data, child->data_len);
}

int main(int argc, char **argv) {
    MPI_Comm world = MPI_COMM_WORLD;
    int rank, count, provided, wrong = 0;
    cgpc_context *context;
    cgpc_exchange exchange = {.size = sizeof exchange};
    cgpc_call_args args = {.size = sizeof args};
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &count);

    must(cgpc_context_new(&context));
    must(cgpc_register(context, "name", name, NULL, NULL, &args.func));
    must(cgpc_register_callback(context, "join", join, NULL, NULL, &args.callback));
    exchange.rank = (uint32_t)rank;
    exchange.count = (uint32_t)count;
    exchange.allgather = allgather;
    exchange.barrier = barrier;
    exchange.arg = &world;
    must(cgpc_start_exchange(context, &exchange, NULL));

    /* The last rank calls; the others answer on a thread of the context, whatever MPI does meanwhile. */
    if (rank == count - 1) {
        char names[4096], expected[4096];
        size_t length = sizeof names;
        int end = snprintf(expected, sizeof expected, "rank %d", rank), other;
        for (other = 0; other < rank; other++) {
            end += snprintf(expected + end, sizeof expected - (size_t)end, ", rank %d", other);
        }
        args.id_count = (size_t)count;
        must(cgpc_call_run_into(context, &args, NULL, NULL, names, &length, NULL));
        printf("%.*s\n", (int)length, names);
        wrong = length != (size_t)end || memcmp(names, expected, length) != 0;
    }
    MPI_Barrier(world);
    must(cgpc_finalize(context, 1000000));
    MPI_Finalize();
    return wrong;
}
