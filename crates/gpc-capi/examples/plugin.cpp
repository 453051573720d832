// A plug-in in C++: the mean of the bytes at each id, and of those of all ids. An exception becomes a failure of the call.
//
//     c++ -shared -fPIC -fvisibility=hidden $(pkg-config --cflags chained_gpc) plugin.cpp -o plugin.so
//     gpc call mean -n 8 --load plugin.so --data README.md --callback means
#include <chained_gpc_plugin.h>

#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>

static const cgpc_plugin_table *gpc;

// Runs code that returns the reply of this id, and may throw.
template <class Code> static int guarded(cgpc_reply *reply, Code code) noexcept {
    try {
        const std::string data = code();
        return gpc->reply->set_data(reply, data.data(), data.size());
    } catch (const std::exception &exception) {
        gpc->reply->explain(reply, exception.what());
    } catch (...) {
        gpc->reply->explain(reply, "an exception without a text");
    }
    return CGPC_ERR_EXCEPTION;
}

// "MEAN of COUNT".
static std::string text(double sum, unsigned long count) {
    return std::to_string(sum / static_cast<double>(count)) + " of " + std::to_string(count);
}

extern "C" {
static int mean(const cgpc_request *request, cgpc_reply *reply, void *) {
    return guarded(reply, [&] {
        const void *data = nullptr;
        std::size_t length = 0;
        gpc->request->data(request, &data, &length);
        if (length == 0) {
            throw std::invalid_argument("no data have no mean: pass some with --data");
        }
        const auto *bytes = static_cast<const unsigned char *>(data);
        return text(std::accumulate(bytes, bytes + length, 0.0), length);
    });
}

static int means(const cgpc_request *, const cgpc_child *child, cgpc_reply *own, void *) {
    return guarded(own, [&] {
        void *data = nullptr;
        std::size_t length = 0;
        gpc->reply->data(own, &data, &length);
        double sum = 0;
        unsigned long count = 0;
        const auto add = [&](const std::string &part) {
            const unsigned long more = std::stoul(part.substr(part.find(" of ") + 4));
            sum += std::stod(part) * static_cast<double>(more);
            count += more;
        };
        add(std::string(static_cast<const char *>(data), length));
        add(std::string(static_cast<const char *>(child->data), child->data_len));
        return text(sum, count);
    });
}

static int load(const cgpc_plugin_table *table, cgpc_context *context) {
    gpc = table;
    const int status = gpc->add->func(context, "mean", mean, nullptr, nullptr, nullptr);
    return status != CGPC_OK ? status
                             : gpc->add->callback(context, "means", means, nullptr, nullptr, nullptr);
}
}

CGPC_PLUGIN(load);
