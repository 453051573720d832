// C++17: lambdas as functions, exceptions as failures, and the replies of a partial call.
//
//     c++ -std=c++17 lambda.cpp $(pkg-config --cflags --libs chained_gpc) -o lambda && mpiexec -n 4 ./lambda
#include <chained_gpc.h>
#include <cstring>
#include <iostream>

static std::uint64_t number(cgpc::view bytes) {
    std::uint64_t value = 0;
    if (bytes.length != sizeof value) {
        throw std::runtime_error("a reply is no number");
    }
    std::memcpy(&value, bytes.start, sizeof value);
    return value;
}

int main() try {
    cgpc::context context;
    std::uint64_t factor = 3;
    auto triple = context.add_func("triple", [&factor](cgpc::request request, cgpc::reply reply) {
        std::uint64_t value = factor * request.me();
        reply.set_data(&value, sizeof value);
    });
    auto add = context.add_callback("add", [](cgpc::request, const cgpc_child &child, cgpc::reply own) {
        auto [start, length] = own.data();
        std::uint64_t sum = number({start, length}) + number({child.data, child.data_len});
        own.set_data(&sum, sizeof sum);
    });
    auto odd = context.add_func("odd", [](cgpc::request request, cgpc::reply) {
        if (request.me() % 2 == 1) {
            throw std::domain_error("this id is odd");
        }
    });
    context.start_launched();
    bool right = true;
    if (context.id() == 0) {
        std::uint64_t count = context.count(), sum = number(context.run(cgpc::call(triple).callback(add).range(0, count)).data());
        auto even = context.run(cgpc::call(odd).range(0, count).partial());
        right = sum == 3 * count * (count - 1) / 2 && even.reply_count() == (count + 1) / 2;
        try {
            context.run(cgpc::call(odd).range(0, count));
            right = right && count == 1;
        } catch (const cgpc::error &error) {
            right = right && error.code() == CGPC_ERR_EXCEPTION && std::strstr(error.what(), "odd") != nullptr;
        }
        std::cout << count << " processes, sum " << sum << ": " << (right ? "right" : "wrong") << '\n';
    } else {
        context.serve();
    }
    context.finalize(1000000);
    return right ? 0 : 1;
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
