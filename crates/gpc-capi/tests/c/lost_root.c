/* Processes that serve until id 0 leaves: it dies by `kill -9`, and each of the others notices that it was lost, although
 * those that noticed it before have left in order. */
#include <signal.h>

#include "check.h"

int main(void) {
    cgpc_context *context;
    uint32_t id = 0;
    OK(cgpc_context_new(&context));
    OK(cgpc_start_launched(context, NULL));
    OK(cgpc_id(context, &id));
    if (id == 0) {
        kill(getpid(), SIGKILL);
    }
    IS(CGPC_NONE, cgpc_serve(context));
    OK(cgpc_finalize(context, 1000000));
    printf("%u lost it\n", (unsigned)id);
    return 0;
}
