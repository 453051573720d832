/* Calls whose messages are those of MPI: the library opens no socket. Each rank is an id, and one thread does all.
 *
 *     mpicc network_mpi.c $(pkg-config --cflags --libs chained_gpc) -o network && mpiexec -n 4 ./network */
#include <mpi.h>
#include <string.h>

#include "must.h"

#define TAG 7
#define MESSAGE_MAX 16384
#define SLOTS 16
#define LENGTH 300000

/* What leaves: each message has a place until MPI is done with it. */
typedef struct {
    cgpc_context *context;
    MPI_Comm comm;
    int rank, count, closing, waits;
    MPI_Request requests[SLOTS];
    char messages[SLOTS][MESSAGE_MAX];
} network;

/* Synchronous sends end when the receiver has the message, so that at the end none is under way. */
static int send_message(uint32_t to, const cgpc_part *parts, size_t count, void *arg) {
    network *self = arg;
    size_t at = 0, part;
    int slot = 0;
    while (slot < SLOTS && self->requests[slot] != MPI_REQUEST_NULL) {
        slot++;
    }
    if (self->closing) {
        return -1;
    }
    if (slot == SLOTS) {
        self->waits = 1;
        return CGPC_WOULD_BLOCK;
    }
    for (part = 0; part < count; part++) {
        memcpy(self->messages[slot] + at, parts[part].bytes, parts[part].length);
        at += parts[part].length;
    }
    return MPI_Issend(self->messages[slot], (int)at, MPI_BYTE, (int)to, TAG, self->comm, &self->requests[slot]);
}

/* Takes what has come, and frees the places of what has left; returns whether any is in use. */
static int exchange(network *self) {
    char message[MESSAGE_MAX];
    int come, length, slot, left, has_left = 0, busy = 0;
    MPI_Status status;
    for (MPI_Iprobe(MPI_ANY_SOURCE, TAG, self->comm, &come, &status); come;
         MPI_Iprobe(MPI_ANY_SOURCE, TAG, self->comm, &come, &status)) {
        MPI_Get_count(&status, MPI_BYTE, &length);
        MPI_Recv(message, length, MPI_BYTE, status.MPI_SOURCE, TAG, self->comm, MPI_STATUS_IGNORE);
        must(cgpc_deliver(self->context, (uint32_t)status.MPI_SOURCE, message, (size_t)length));
    }
    for (slot = 0; slot < SLOTS; slot++) {
        if (self->requests[slot] != MPI_REQUEST_NULL) {
            MPI_Test(&self->requests[slot], &left, MPI_STATUS_IGNORE);
            has_left |= left;
            busy |= !left;
        }
    }
    if (self->waits && has_left) {
        uint32_t id;
        self->waits = 0;
        for (id = 0; id < (uint32_t)self->count; id++) {
            must(cgpc_writable(self->context, id));
        }
    }
    return busy;
}

static void turn(network *self) {
    exchange(self);
    must(cgpc_progress(self->context, 64, NULL));
}

/* Serves the others until all ranks are here. */
static void barrier(network *self) {
    MPI_Request request;
    int done = 0;
    for (MPI_Ibarrier(self->comm, &request); !done; MPI_Test(&request, &done, MPI_STATUS_IGNORE)) {
        turn(self);
    }
}

/* Each rank replies with its number, and a long text of it. */
static int text(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    void *data;
    uint32_t me;
    (void)arg;
    must(cgpc_request_me(request, &me));
    must(cgpc_reply_resize(reply, LENGTH, &data));
    memset(data, 'a' + (int)(me % 26), LENGTH);
    return 0;
}

static int is_right(const cgpc_outcome *outcome, uint32_t id) {
    const void *data;
    size_t length, at;
    if (cgpc_outcome_reply(outcome, id, NULL, NULL, &data, &length) != CGPC_OK || length != LENGTH) {
        return 0;
    }
    for (at = 0; at < length; at++) {
        if (((const char *)data)[at] != 'a' + (int)(id % 26)) {
            return 0;
        }
    }
    return 1;
}

int main(int argc, char **argv) {
    static network self = {.comm = MPI_COMM_WORLD};
    cgpc_network mine = {.size = sizeof mine, .send = send_message, .message_max = MESSAGE_MAX, .arg = &self};
    cgpc_options options = {.size = sizeof options, .flags = CGPC_POLLED};
    cgpc_call_args args = {.size = sizeof args};
    int slot, right = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(self.comm, &self.rank);
    MPI_Comm_size(self.comm, &self.count);
    for (slot = 0; slot < SLOTS; slot++) {
        self.requests[slot] = MPI_REQUEST_NULL;
    }
    must(cgpc_context_new(&self.context));
    must(cgpc_register(self.context, "text", text, NULL, NULL, &args.func));
    mine.id = (uint32_t)self.rank;
    mine.count = (uint32_t)self.count;
    must(cgpc_start_network(self.context, &mine, &options));
    MPI_Barrier(self.comm);

    if (self.rank == self.count - 1) {
        cgpc_call *call;
        cgpc_outcome *outcome;
        uint32_t id;
        args.id_count = (size_t)self.count;
        must(cgpc_call_start(self.context, &args, &call));
        while (must(cgpc_call_test(call, &outcome)) == CGPC_PENDING) {
            turn(&self);
        }
        cgpc_call_free(call);
        for (id = 0; id < mine.count; id++) {
            right += is_right(outcome, id);
        }
        printf("%d of %d replies over MPI are right\n", right, self.count);
        cgpc_outcome_free(outcome);
        right = right == self.count;
    } else {
        right = 1;
    }
    barrier(&self);
    /* Nothing more is sent; what is under way arrives. */
    for (self.closing = 1; exchange(&self);) {
    }
    barrier(&self);
    must(cgpc_finalize(self.context, 0));
    MPI_Finalize();
    return !right;
}
