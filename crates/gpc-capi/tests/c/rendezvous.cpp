/* The wrappers of gpc_rendezvous.h: a function that throws ends no process, and what it has thrown comes back. */
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "gpc_rendezvous.h"
/* A second time, as programs do. */
#include "chained_gpc.h"
#include "gpc_rendezvous.h"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            std::fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
            std::abort(); \
        } \
    } while (0)

int main() {
    const std::uint64_t limit_us = 60000000;
    cgpc::rendezvous client;
    cgpc_rendezvous_spec spec = {};
    spec.size = sizeof spec;
    spec.capacity = 2;
    const std::string resource = client.create(std::getenv("SERVICE"), spec);
    std::atomic<int> calls(0), completed(0);
    auto counts = client.subscribe(resource, [&](const cgpc_notification &notification) {
        completed += notification.kind == CGPC_NOTIFY_COMPLETED;
    });
    auto throws = client.subscribe(resource, [&](const cgpc_notification &) {
        calls++;
        throw std::runtime_error("no more");
    });
    CHECK(client.enroll(resource, cgpc::rendezvous::token(), "b", 1) == 1);
    CHECK(!client.wait(resource, 0).has_value());
    CHECK(client.enroll(resource, cgpc::rendezvous::token(), "a") == 0);
    const auto all = client.wait(resource, limit_us);
    CHECK(all.has_value() && all->level() == 1 && all->data().text() == "2 1 a1 b");
    while (calls == 0 || completed == 0) {
    }
    std::string said;
    /* The exception may be stored a moment after it was thrown. */
    while (said.empty()) {
        try {
            throws.rethrow();
        } catch (const std::runtime_error &error) {
            said = error.what();
        }
    }
    CHECK(said == "no more" && calls == 1);
    counts.rethrow();
    client.destroy(resource);
    try {
        client.subscribe(resource, [](const cgpc_notification &) {});
        CHECK(false);
    } catch (const cgpc::error &error) {
        CHECK(error.status() == CGPC_ERR_FAULT && error.kind() == CGPC_FAULT_DESTROYED && !error.has_cause());
    }
    std::puts("done");
    return 0;
}
