// A function that throws without the wrapper: the process must end with a message.
#include <cstdio>
#include <stdexcept>

#include "chained_gpc.h"

static int raw(const cgpc_request *, cgpc_reply *, void *) { throw std::runtime_error("raw"); }

int main() {
    cgpc_context *context = nullptr;
    cgpc_function func = 0;
    cgpc_call_args args = {};
    args.size = sizeof args;
    cgpc::check(cgpc_context_new(&context));
    cgpc::check(cgpc_register(context, "raw", raw, nullptr, nullptr, &func));
    cgpc::check(cgpc_start(context, nullptr));
    args.func = func;
    args.id_count = 1;
    cgpc_call_run(context, &args, nullptr);
    std::puts("done");
}
