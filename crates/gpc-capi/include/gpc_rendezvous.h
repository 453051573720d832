/* gpc_rendezvous.h: tasks that were started apart find each other through a rendezvous service, over http or https.
 *
 * Generated from the sources of the library; do not change it here.
 *
 * Each task registers some bytes with a resource, whose handle it knows. When all have registered, each gets the data of
 * all, by rank. The library has these functions if it was built with them: make install SERVICES=1.
 *
 * The rules of chained_gpc.h hold, and at the end there are wrappers for C++17. Texts are copied: resources, tokens and
 * names may be freed after the call. A signal ends no wait. Each wait has a limit,
 * and two seconds more for an answer that is under way. The content of an answer has 30 s, and a second more for each
 * 16 KiB. */

#ifndef GPC_RENDEZVOUS_H
#define GPC_RENDEZVOUS_H

#include "chained_gpc.h"

// Bytes that a handle has at most, with its final zero.
#define CGPC_HANDLE_SIZE 1058

// Bytes that a token of cgpc_rendezvous_token has, with its final zero.
#define CGPC_TOKEN_SIZE 65

// A rank: the resource assigns one.
#define CGPC_RANK_ASSIGN -1

// Which completion: that of the resource itself.
#define CGPC_SCOPE_OWN 0

// The completion of the topmost resource above, if the service registers the units there. Without one above, that of
// the resource itself.
#define CGPC_SCOPE_TOP 1

// A kind of notification: the number of registrants. First the present one, then each change; changes that follow each
// other closely are one.
#define CGPC_NOTIFY_TALLY 1

// A kind of notification: the rendezvous is complete. The last one.
#define CGPC_NOTIFY_COMPLETED 2

// A kind of notification: the rendezvous cannot complete, or the service is not reached any more. The last one.
#define CGPC_NOTIFY_FAILED 3

// A fault: the capacity is 0.
#define CGPC_FAULT_CAPACITY_ZERO 1

// A fault: the capacity is over the limit of the service.
#define CGPC_FAULT_CAPACITY_OVER 2

// A fault: the level is outside 1 to the limit of the service, or does not fit that of the parent.
#define CGPC_FAULT_LEVEL_OUT_OF_RANGE 3

// A fault: the lifetime is 0 or over the limit of the service.
#define CGPC_FAULT_LIFETIME_OUT_OF_RANGE 4

// A fault: all ranks of the resource are taken.
#define CGPC_FAULT_CAPACITY_REACHED 5

// A fault: another registrant has this rank.
#define CGPC_FAULT_RANK_TAKEN 6

// A fault: the rank is not below the capacity.
#define CGPC_FAULT_RANK_OUT_OF_RANGE 7

// A fault: the data are longer than the limit of the service.
#define CGPC_FAULT_DATA_TOO_LONG 8

// A fault: the data are not level-n data of the level below that of the resource.
#define CGPC_FAULT_MALFORMED_DATA 9

// A fault: the token has registered already, with other data or another rank.
#define CGPC_FAULT_TOKEN_REUSED 10

// A fault: no registrant has this token and this rank.
#define CGPC_FAULT_NOT_REGISTERED 11

// A fault: the rendezvous is complete, so registrants cannot withdraw.
#define CGPC_FAULT_ALREADY_COMPLETE 12

// A fault: the service has no such resource.
#define CGPC_FAULT_UNKNOWN_RESOURCE 13

// A fault: the resource was destroyed.
#define CGPC_FAULT_DESTROYED 14

// A fault: the lifetime of the resource has passed.
#define CGPC_FAULT_EXPIRED 15

// A fault: the job that the resource belonged to has ended.
#define CGPC_FAULT_JOB_ENDED 16

// A fault: a controlling task was lost.
#define CGPC_FAULT_CONTROLLER_LOST 17

// A fault: another task controls this unit.
#define CGPC_FAULT_CONTROLLER_TAKEN 18

// A fault: the resource above rejected this unit, or its service was not reached.
#define CGPC_FAULT_ABOVE_FAILED 19

// A fault: the service is at one of its limits.
#define CGPC_FAULT_SERVICE_FULL 20

// A fault: the request is invalid.
#define CGPC_FAULT_BAD_REQUEST 21

// A fault: the token of the service is missing or wrong.
#define CGPC_FAULT_UNAUTHORIZED 22

// A fault: the service cannot write its store, or is ending. Functions try again until their limit, and return
// CGPC_ERR_SERVER then.
#define CGPC_FAULT_UNAVAILABLE 23

// The data of all, once a rendezvous is complete.
typedef struct cgpc_completion cgpc_completion;

// A client of rendezvous services. Threads can share it, and wait at the same time.
typedef struct cgpc_rendezvous cgpc_rendezvous;

// A subscription to the notifications of a resource.
typedef struct cgpc_subscription cgpc_subscription;

// Options of a client.
typedef struct cgpc_rendezvous_options {
    // sizeof(cgpc_rendezvous_options).
    size_t size;
    // File with the token of the services. If null, the file that GPC_RENDEZVOUS_TOKEN_FILE names, or no token.
    const char *token_file;
    // File with the certificates (PEM) of the authority that has signed those of https services. If null, the file
    // that GPC_RENDEZVOUS_CA_FILE names.
    const char *ca_file;
    // How long to try while a service does not answer; 0 for 10 s. Waits have limits of their own.
    uint64_t limit_us;
    // Longest data of a completion, bytes; 0 for 2 GiB.
    uint64_t data_max;
} cgpc_rendezvous_options;

// What a resource is created with.
typedef struct cgpc_rendezvous_spec {
    // sizeof(cgpc_rendezvous_spec).
    size_t size;
    // Number of registrants that make it complete, at least 1.
    uint64_t capacity;
    // Level of its data: 1 for tasks. 0 for the level below that of the parent, or 1.
    uint32_t level;
    // Whether the completion has a new job and a new secret, which all members share: 0 or 1.
    int32_t joint;
    // Lifetime, microseconds; 0 for that of the service, an hour.
    uint64_t lifetime_us;
    // Handle of the resource above, at which the service registers this one when it is complete; may be null.
    const char *parent;
    // Rank there, or CGPC_RANK_ASSIGN.
    int64_t parent_rank;
    // Job that it belongs to, 32 hexadecimal digits; may be null.
    const char *job;
} cgpc_rendezvous_spec;

// Properties of a resource.
typedef struct cgpc_rendezvous_properties_of {
    // sizeof(cgpc_rendezvous_properties_of).
    size_t size;
    // Level of its data when it is complete.
    uint32_t level;
    // Number of registrants that make it complete.
    uint32_t capacity;
    // Number of registrants so far.
    uint32_t tally;
    // Whether it is complete: 0 or 1.
    int32_t completed;
    // CGPC_FAULT_EXPIRED and others: why it cannot complete; 0 if it can.
    uint32_t fault;
    // Number of valid entries of `missing`.
    uint32_t missing_count;
    // The lowest ranks that have not registered.
    uint32_t missing[16];
    // Bytes of data registered so far.
    uint64_t bytes;
    // Number of waits.
    uint64_t waiting;
    // Its creation, microseconds since 1970.
    uint64_t created_us;
    // The end of its lifetime, microseconds since 1970.
    uint64_t expires_us;
} cgpc_rendezvous_properties_of;

// A notification. Its pointers are valid while the function that gets it runs, or until the next call of
// cgpc_subscription_next or cgpc_subscription_free for this subscription.
typedef struct cgpc_notification {
    // sizeof(cgpc_notification).
    size_t size;
    // CGPC_NOTIFY_TALLY and others. The fields below that it does not name are 0.
    int32_t kind;
    // Of CGPC_NOTIFY_TALLY: number of registrants so far.
    uint32_t tally;
    // Of CGPC_NOTIFY_TALLY: number of registrants that make the resource complete.
    uint32_t capacity;
    // Of CGPC_NOTIFY_COMPLETED: level of the data.
    uint32_t level;
    // Of CGPC_NOTIFY_COMPLETED: the level-n data of all, by rank.
    const void *data;
    // Length of the data, bytes.
    size_t length;
    // Of CGPC_NOTIFY_FAILED: CGPC_ERR_FAULT, or why the service is not reached.
    int32_t status;
    // Of CGPC_ERR_FAULT: CGPC_FAULT_DESTROYED and others.
    uint32_t fault;
    // Of CGPC_NOTIFY_FAILED: why, for people; otherwise null.
    const char *message;
} cgpc_notification;

// Receives the notifications of a subscription, one after the other, on the thread of the subscription. It may call
// any function, also cgpc_subscription_free for its own subscription: then it is not called again.
typedef void (*cgpc_notify_fn)(const struct cgpc_notification *notification, void *arg);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes a client. `options` may be null. Free it with cgpc_rendezvous_free. It has no thread; a name in a URL is
// looked up on one, for as long as that takes.
//
// Errors: CGPC_ERR_ARGUMENT if a file or a variable cannot be used. May be called from any thread, and in a forked
// child.
int cgpc_rendezvous_new(const struct cgpc_rendezvous_options *options,
                        struct cgpc_rendezvous **client);

// Frees a client. Its subscriptions and the calls of other threads go on. May be called from anywhere.
int cgpc_rendezvous_free(struct cgpc_rendezvous *client);

// Draws a token for a registrant: CGPC_TOKEN_SIZE bytes with the final zero. A registration that is repeated with its
// token is the same registration. May be called from anywhere.
int cgpc_rendezvous_token(char *token,
                          size_t capacity);

// Creates a resource at a service, http://HOST:PORT/rendezvous or https, and stores its handle, a text. The buffer has
// at least CGPC_HANDLE_SIZE bytes: a handle that did not fit would be lost. `length`, which may be null, gets the
// length without the zero. A request whose answer is lost is not repeated: the resource may exist until the end of its
// lifetime.
//
// Errors: CGPC_ERR_FAULT if the service refuses, CGPC_ERR_SERVER if it is not reached, CGPC_ERR_ARGUMENT,
// CGPC_ERR_TRUNCATED if the buffer is too small: then nothing was asked for. So for the functions below. May be called
// from anywhere; it waits for the service, at most the limit of the client.
int cgpc_rendezvous_create(const struct cgpc_rendezvous *client,
                           const char *service,
                           const struct cgpc_rendezvous_spec *spec,
                           char *buffer,
                           size_t capacity,
                           size_t *length);

// Registers data: any bytes at a resource of level 1, otherwise level-n data of the level below. `rank` is
// CGPC_RANK_ASSIGN or the rank asked for. If `lease_us` is not 0, the registration is withdrawn unless the registrant
// waits, subscribes or registers again with its token at least so often, until the rendezvous is complete. `own_rank`,
// `tally` and `count` get the rank, the number of registrants so far, and the number that makes the resource complete;
// each may be null. May be called from anywhere, as cgpc_rendezvous_create.
int cgpc_rendezvous_register(const struct cgpc_rendezvous *client,
                             const char *resource,
                             int64_t rank,
                             const char *token,
                             const void *data,
                             size_t length,
                             uint64_t lease_us,
                             uint32_t *own_rank,
                             uint32_t *tally,
                             uint32_t *count);

// Withdraws a registration before the rendezvous is complete. May be called from anywhere, as cgpc_rendezvous_create.
int cgpc_rendezvous_withdraw(const struct cgpc_rendezvous *client,
                             const char *resource,
                             uint32_t rank,
                             const char *token);

// Waits until the rendezvous is complete, at most `limit_us`, and stores its completion: free it with
// cgpc_completion_free. `scope` is CGPC_SCOPE_OWN or CGPC_SCOPE_TOP. With the token of a registrant, its lease holds
// meanwhile; `token` may be null. Returns CGPC_PENDING if it is not complete by then, and CGPC_ERR_FAULT if it cannot
// complete. May be called from anywhere, as cgpc_rendezvous_create, and by several threads at the same time.
int cgpc_rendezvous_wait(const struct cgpc_rendezvous *client,
                         const char *resource,
                         int32_t scope,
                         const char *token,
                         uint64_t limit_us,
                         struct cgpc_completion **completion);

// Stores the level of a completion, and where its level-n data are, until it is freed: see cgpc_level_each. Each
// result may be null. May be called from anywhere.
int cgpc_completion_data(const struct cgpc_completion *completion,
                         uint16_t *level,
                         const void **data,
                         size_t *length);

// Copies the job and the secret that the members of a completion share, as cgpc_options takes them: 33 and 65 bytes
// with the final zeros. Returns CGPC_NONE if the resource was created without `joint`. May be called from anywhere.
int cgpc_completion_joint(const struct cgpc_completion *completion,
                          char *job,
                          size_t job_capacity,
                          char *secret,
                          size_t secret_capacity);

// Frees a completion. May be called from anywhere.
int cgpc_completion_free(struct cgpc_completion *completion);

// Stores the properties of a resource. Set `properties->size` before. May be called from anywhere, as
// cgpc_rendezvous_create.
int cgpc_rendezvous_properties(const struct cgpc_rendezvous *client,
                               const char *resource,
                               struct cgpc_rendezvous_properties_of *properties);

// Destroys a resource: its waits and subscriptions end with CGPC_FAULT_DESTROYED. May be called from anywhere, as
// cgpc_rendezvous_create.
int cgpc_rendezvous_destroy(const struct cgpc_rendezvous *client,
                            const char *resource);

// Subscribes to the notifications of a resource. A subscriber that comes late gets the present state, and the
// completion. `scope` and `token` as for cgpc_rendezvous_wait: the lease holds as long as the subscription. Free it
// with cgpc_subscription_free.
//
// With a function `notify`, the subscription has a thread that calls it with each notification and `arg`, and
// `release`, which may be null, releases `arg` once: after the last call, or now if the function fails. It ends with
// CGPC_NOTIFY_FAILED if the service is not reached for the limit of the client. Without one, there is no thread:
// cgpc_subscription_next waits for the notifications.
//
// Errors: those of cgpc_rendezvous_create. May be called from anywhere; it waits for the service, at most the limit of
// the client.
int cgpc_rendezvous_subscribe(const struct cgpc_rendezvous *client,
                              const char *resource,
                              int32_t scope,
                              const char *token,
                              cgpc_notify_fn notify,
                              void *arg,
                              cgpc_release_fn release,
                              struct cgpc_subscription **subscription);

// Waits for the next notification of a subscription without a function, at most `limit_us` (at least 10 ms), and
// stores it. Set `notification->size` before. Returns CGPC_PENDING if none has arrived by then, and CGPC_NONE after
// the last one. Another error ends the wait, and not the subscription.
//
// Errors: those of cgpc_rendezvous_create, CGPC_ERR_BUSY if another thread waits, CGPC_ERR_STATE if another thread
// frees it, CGPC_ERR_UNSUPPORTED if it has a function. May be called from anywhere.
int cgpc_subscription_next(struct cgpc_subscription *subscription,
                           uint64_t limit_us,
                           struct cgpc_notification *notification);

// Ends a subscription and frees it. Its function has returned then, and is not called again; if the function itself
// calls this, it is the last call. May be called from anywhere.
int cgpc_subscription_free(struct cgpc_subscription *subscription);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GPC_RENDEZVOUS_H */


#if defined(__cplusplus) && __cplusplus >= 201703L && defined(__cpp_exceptions) && !defined(GPC_RENDEZVOUS_HPP)
#define GPC_RENDEZVOUS_HPP

#include <mutex>

/* Wrappers for C++17, as those of chained_gpc.h. */
namespace cgpc {

/* The data of all, valid as long as this value or a copy of it. */
class completion {
public:
    explicit completion(cgpc_completion *of)
        : of_(of, [](cgpc_completion *freed) { cgpc_completion_free(freed); }) {}
    cgpc_completion *c() const { return of_.get(); }
    std::uint16_t level() const {
        std::uint16_t level = 0;
        check(cgpc_completion_data(c(), &level, nullptr, nullptr));
        return level;
    }
    view data() const {
        view value = {nullptr, 0};
        check(cgpc_completion_data(c(), nullptr, &value.start, &value.length));
        return value;
    }

private:
    std::shared_ptr<cgpc_completion> of_;
};

/* A subscription, which ends with this value. */
class subscription {
public:
    cgpc_subscription *c() const { return of_.get(); }
    /* Throws what the function has thrown. It was not called again since then. */
    void rethrow() const {
        std::lock_guard<std::mutex> lock(shared_->mutex);
        if (shared_->thrown) {
            std::rethrow_exception(shared_->thrown);
        }
    }

private:
    friend class rendezvous;
    struct state {
        std::function<void(const cgpc_notification &)> function;
        std::mutex mutex;
        std::exception_ptr thrown;
    };
    static void notified(const cgpc_notification *notification, void *arg) {
        state &to = **static_cast<std::shared_ptr<state> *>(arg);
        {
            std::lock_guard<std::mutex> lock(to.mutex);
            if (to.thrown) {
                return;
            }
        }
        try {
            to.function(*notification);
        } catch (...) {
            std::lock_guard<std::mutex> lock(to.mutex);
            to.thrown = std::current_exception();
        }
    }
    struct freed {
        void operator()(cgpc_subscription *of) const { cgpc_subscription_free(of); }
    };
    std::shared_ptr<state> shared_ = std::make_shared<state>();
    std::unique_ptr<cgpc_subscription, freed> of_;
};

/* A client of rendezvous services. */
class rendezvous {
public:
    explicit rendezvous(const cgpc_rendezvous_options *options = nullptr) {
        cgpc_rendezvous *made = nullptr;
        check(cgpc_rendezvous_new(options, &made));
        of_.reset(made);
    }
    cgpc_rendezvous *c() const { return of_.get(); }
    static std::string token() {
        char drawn[CGPC_TOKEN_SIZE];
        check(cgpc_rendezvous_token(drawn, sizeof drawn));
        return drawn;
    }
    /* The handle of a new resource. */
    std::string create(const std::string &service, const cgpc_rendezvous_spec &spec) const {
        char handle[CGPC_HANDLE_SIZE];
        check(cgpc_rendezvous_create(c(), service.c_str(), &spec, handle, sizeof handle, nullptr));
        return handle;
    }
    /* The rank. */
    std::uint32_t enroll(const std::string &resource, const std::string &token, const std::string &data,
                         std::int64_t rank = CGPC_RANK_ASSIGN, std::uint64_t lease_us = 0) const {
        std::uint32_t own = 0;
        check(cgpc_rendezvous_register(c(), resource.c_str(), rank, token.c_str(), data.data(), data.size(), lease_us,
                                       &own, nullptr, nullptr));
        return own;
    }
    /* The completion; none if it is not there within the limit. */
    std::optional<completion> wait(const std::string &resource, std::uint64_t limit_us,
                                   std::int32_t scope = CGPC_SCOPE_TOP, const char *token = nullptr) const {
        cgpc_completion *found = nullptr;
        int status = check(cgpc_rendezvous_wait(c(), resource.c_str(), scope, token, limit_us, &found));
        if (status == CGPC_PENDING) {
            return std::nullopt;
        }
        return completion(found);
    }
    /* The function runs on a thread of the subscription. If it throws, it is not called again: see rethrow. */
    subscription subscribe(const std::string &resource, std::function<void(const cgpc_notification &)> function,
                           std::int32_t scope = CGPC_SCOPE_TOP, const char *token = nullptr) const {
        subscription made;
        made.shared_->function = std::move(function);
        using kept = std::shared_ptr<subscription::state>;
        cgpc_subscription *of = nullptr;
        /* The library releases the argument in any case. */
        check(cgpc_rendezvous_subscribe(
            c(), resource.c_str(), scope, token, subscription::notified, new kept(made.shared_),
            [](void *arg) { delete static_cast<kept *>(arg); }, &of));
        made.of_.reset(of);
        return made;
    }
    void destroy(const std::string &resource) const { check(cgpc_rendezvous_destroy(c(), resource.c_str())); }

private:
    struct freed {
        void operator()(cgpc_rendezvous *of) const { cgpc_rendezvous_free(of); }
    };
    std::unique_ptr<cgpc_rendezvous, freed> of_;
};

} /* namespace cgpc */

#endif /* __cplusplus */
