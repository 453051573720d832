// The wrappers for C++: a lambda as function, exceptions in functions, errors as exceptions.
#include <cstdio>
#include <cstring>
#include <unistd.h>

#include "chained_gpc.h"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            std::fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, cgpc::last_message().c_str()); \
            std::abort(); \
        } \
    } while (0)

int main() {
    std::vector<cgpc::context> contexts(3);
    cgpc_function square = 0, sum = 0, throws = 0;
    int used = 0;
    std::string peers;
    auto address = [](int id) { return "unix:@capi-cpp-" + std::to_string(getpid()) + "-" + std::to_string(id); };
    for (int id = 0; id < 3; id++) {
        peers += std::to_string(id) + " " + address(id) + "\n";
        int base = 10;
        square = contexts[id].add_func("square", [base, &used](cgpc::request request, cgpc::reply reply) {
            std::uint32_t value = request.me() * request.me() + base;
            reply.set_data(&value, sizeof value);
            __atomic_add_fetch(&used, 1, __ATOMIC_SEQ_CST);
        });
        sum = contexts[id].add_callback("sum", [](cgpc::request, const cgpc_child &child, cgpc::reply own) {
            if (child.data_len != sizeof(std::uint32_t) || own.data().second != sizeof(std::uint32_t)) {
                throw std::runtime_error("not a number");
            }
            std::uint32_t mine, more;
            std::memcpy(&mine, own.data().first, sizeof mine);
            std::memcpy(&more, child.data, sizeof more);
            mine += more;
            own.set_data(&mine, sizeof mine);
        });
        throws = contexts[id].add_func("throws", [](cgpc::request request, cgpc::reply) {
            if (request.me() == 1) {
                throw std::runtime_error("thrown at id 1");
            }
            if (request.me() == 2) {
                throw 7;
            }
        });
    }
    for (int id = 0; id < 3; id++) {
        cgpc_options options = {};
        options.size = sizeof options;
        std::string listen = address(id);
        options.id = id;
        options.listen = listen.c_str();
        options.peers = peers.c_str();
        contexts[id].start(options);
    }
    auto outcome = contexts[0].run(cgpc::call(square).callback(sum).range(0, 3));
    std::uint32_t total = 0;
    CHECK(outcome.is_complete() && outcome.data().length == sizeof total);
    std::memcpy(&total, outcome.data().start, sizeof total);
    CHECK(total == 35 && used == 3);

    try {
        contexts[0].run(cgpc::call(throws).range(0, 2));
        CHECK(false);
    } catch (const cgpc::error &error) {
        CHECK(error.status() == CGPC_ERR_CALL && std::strstr(error.what(), "thrown at id 1") != nullptr);
    }
    auto partial = contexts[0].run(cgpc::call(throws).range(0, 3).partial());
    CHECK(!partial.is_complete() && partial.reply_count() == 1);
    CHECK(cgpc_outcome_cause(partial.c(), 2) == CGPC_OK);
    cgpc_error cause = {};
    cause.size = sizeof cause;
    CHECK(cgpc_last_error(&cause) == CGPC_OK && cause.code == CGPC_ERR_EXCEPTION && cause.id == 2);
    try {
        cgpc::context unstarted;
        unstarted.run(cgpc::call(unstarted.add_func("x", [](cgpc::request, cgpc::reply) {})).range(0, 1));
        CHECK(false);
    } catch (const cgpc::error &error) {
        CHECK(error.status() == CGPC_ERR_STATE);
    }
    contexts[0].finalize(1000000);
    std::puts("done");
}
