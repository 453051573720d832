// The wrappers for C++: a lambda as function, exceptions in functions, errors as exceptions.
#include <cstdio>
#include <cstring>
#include <future>
#include <thread>
#include <unistd.h>

#include "chained_gpc.h"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            std::fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, cgpc::last_error().what()); \
            std::abort(); \
        } \
    } while (0)

/* Adds up the lengths of its data. */
struct counting : cgpc::receiver {
    static int alive;
    std::uint64_t bytes = 0;
    counting() { alive++; }
    ~counting() override { alive--; }
    void segment(cgpc::view part) override {
        bytes += part.length;
        if (static_cast<const char *>(part.start)[0] == '!') {
            throw std::runtime_error("thrown by a segment");
        }
    }
    void finish(cgpc::request, cgpc::reply own) override { own.set_data(std::to_string(bytes)); }
};
int counting::alive = 0;

/* The text of the failure of a call. */
static std::string failure(cgpc::context &context, const cgpc::call &call) {
    try {
        context.run(call);
    } catch (const cgpc::error &error) {
        CHECK(error.status() == CGPC_ERR_CALL && error.has_cause() && error.code() == CGPC_ERR_EXCEPTION);
        return error.what();
    }
    return "it succeeded";
}

static bool contains(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

/* Each form of a function, alone: what it does, and what it throws. */
static void forms() {
    cgpc::context context;
    std::vector<std::thread> later;
    auto phased = context.add_phased("phased", [](cgpc::request request, const cgpc_child *child, cgpc::reply own) {
        CHECK(child == nullptr);
        request.set_value(std::make_unique<int>(7));
        CHECK(*request.value<int>() == 7);
        if (request.header().length > 0) {
            throw std::runtime_error("thrown in a phase");
        }
        own.set_data("phased");
    });
    auto deferring = context.add_deferring("deferring", [&](cgpc::request request, cgpc::token &token) {
        std::string what = request.header().text();
        if (what == "throw") {
            throw std::runtime_error("thrown before the reply");
        }
        later.emplace_back([what, promise = std::move(token)]() mutable {
            if (what == "fail") {
                promise.fail(CGPC_ERR_EXCEPTION, "failed later");
            } else if (what != "drop") {
                try {
                    promise.reply("later");
                } catch (const cgpc::error &error) {
                    CHECK(what == "throw after" && error.status() == CGPC_ERR_ARGUMENT);
                }
            }
        });
        if (what == "throw after") {
            throw std::runtime_error("thrown with a reply on its way");
        }
    });
    auto streaming = context.add_streaming("streaming", [](cgpc::request request) -> std::unique_ptr<cgpc::receiver> {
        if (request.header().text() == "throw") {
            throw std::runtime_error("thrown at the beginning");
        }
        return request.header().length > 0 ? nullptr : std::make_unique<counting>();
    });
    cgpc_options options = {};
    options.size = sizeof options;
    context.start(options);
    auto with = [](cgpc_function func, const char *header) {
        cgpc::call call(func);
        call.args.header = header;
        call.args.header_len = std::strlen(header);
        return call.range(0, 1);
    };
    CHECK(context.run(with(phased, "")).reply(0).text() == "phased");
    CHECK(contains(failure(context, with(phased, "throw")), "thrown in a phase"));
    CHECK(context.run(with(deferring, "")).reply(0).text() == "later");
    CHECK(contains(failure(context, with(deferring, "throw")), "thrown before the reply"));
    CHECK(contains(failure(context, with(deferring, "fail")), "failed later"));
    try {
        context.run(with(deferring, "drop"));
        CHECK(false);
    } catch (const cgpc::error &error) {
        CHECK(error.kind() == CGPC_KIND_NO_ANSWER && error.stage() == CGPC_STAGE_FUNC && error.id() == 0);
    }
    /* The reply or the exception is first. */
    try {
        context.run(with(deferring, "throw after"));
    } catch (const cgpc::error &error) {
        CHECK(contains(error.what(), "thrown with a reply"));
    }
    CHECK(context.run(with(streaming, "").data("12345", 5)).reply(0).text() == "5");
    CHECK(contains(failure(context, with(streaming, "throw")), "thrown at the beginning"));
    CHECK(contains(failure(context, with(streaming, "null")), "no receiver"));
    CHECK(contains(failure(context, with(streaming, "").data("!", 1)), "thrown by a segment"));
    CHECK(counting::alive == 0);
    CHECK(cgpc_explain("nobody fails") == CGPC_ERR_STATE);
    context.release(phased);
    try {
        context.run(with(phased, ""));
        CHECK(false);
    } catch (const cgpc::error &error) {
        CHECK(contains(error.what(), "released"));
    }
    for (std::thread &thread : later) {
        thread.join();
    }
}

/* Replies before the call ends: each once, the root's last. */
static void arrivals(cgpc::context &context, cgpc_function square, cgpc_function throws) {
    auto flat = context.named_tree("flat");
    auto flying = context.begin(cgpc::call(square).range(0, 3).along(flat));
    std::uint32_t seen = 0, last = 9;
    while (auto next = flying.next_reply()) {
        std::uint32_t value = 0;
        CHECK(next->is_done() && next->header.length == 0 && next->data.length == sizeof value);
        std::memcpy(&value, next->data.start, sizeof value);
        CHECK(value == next->id * next->id + 10);
        seen += 1u << next->id;
        last = next->id;
    }
    CHECK(seen == 7 && last == 0 && flying.wait().is_complete());

    auto partial = context.begin(cgpc::call(throws).range(0, 3).along(flat).partial());
    int failed = 0, status;
    cgpc::arrival next;
    while ((status = partial.next_reply_for(1000, next)) != CGPC_NONE) {
        failed += status == CGPC_OK && !next.is_done();
    }
    CHECK(failed == 2 && !partial.wait().is_complete());
    auto failing = context.begin(cgpc::call(throws).range(0, 2).along(flat));
    while (failing.next_reply()) {
    }
    try {
        failing.wait();
        CHECK(false);
    } catch (const cgpc::error &error) {
        CHECK(contains(error.what(), "thrown at id 1"));
    }
}

/* Trees, and calls in flight. */
static void shapes(std::vector<cgpc::context> &contexts, cgpc_function square, cgpc_function sum) {
    int splits = 0;
    for (cgpc::context &context : contexts) {
        context.add_tree("line", [&splits](std::uint32_t count) {
            __atomic_add_fetch(&splits, 1, __ATOMIC_SEQ_CST);
            return std::vector<std::uint32_t>{count - 1};
        });
        context.add_tree("broken", [](std::uint32_t) -> std::vector<std::uint32_t> { throw 1; });
    }
    auto total = [&](const cgpc::call &call) {
        std::uint32_t value = 0;
        auto ended = contexts[0].run(call);
        CHECK(ended.data().length == sizeof value);
        std::memcpy(&value, ended.data().start, sizeof value);
        return value;
    };
    auto call = cgpc::call(square).callback(sum).range(0, 3);
    CHECK(total(cgpc::call(call).along(contexts[0].named_tree("line"))) == 35 && splits > 0);
    for (cgpc::context &context : contexts) {
        context.release_tree("line");
    }
    auto star = cgpc::tree::of_children(3, [](std::uint32_t position) {
        return position == 0 ? std::vector<std::uint32_t>{1, 2} : std::vector<std::uint32_t>{};
    });
    CHECK(total(cgpc::call(call).along(star)) == 35);
    CHECK(total(cgpc::call(call).along(cgpc::tree::of_parents({CGPC_NO_PARENT, 0, 1}))) == 35);
    try {
        cgpc::tree::of_children(3, [](std::uint32_t) -> std::vector<std::uint32_t> { throw std::out_of_range("here"); });
        CHECK(false);
    } catch (const std::out_of_range &thrown) {
        CHECK(contains(thrown.what(), "here"));
    }
    auto broken = contexts[0].named_tree("broken");
    try {
        total(cgpc::call(call).along(broken));
        CHECK(false);
    } catch (const cgpc::error &error) {
        CHECK(error.status() == CGPC_ERR_TREE);
    }

    auto flying = contexts[0].begin(call);
    auto second = std::move(flying);
    std::optional<cgpc::outcome> ended;
    while (!(ended = second.wait_for(1000))) {
    }
    CHECK(ended->is_complete());
    std::promise<int> status;
    contexts[0].begin(call).on_end([&](int how, cgpc::outcome outcome) {
        CHECK(outcome.is_complete());
        status.set_value(how);
    });
    CHECK(status.get_future().get() == CGPC_OK);
    auto given_up = contexts[0].begin(call);
    given_up.cancel();
    contexts[0].begin(call).detach();
}

int main() {
    forms();
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
    arrivals(contexts[0], square, throws);
    shapes(contexts, square, sum);
    contexts[0].finalize(1000000);
    std::puts("done");
}
