/*
 * One task of a rendezvous, with the JDK alone: registers its contact, waits for all others, prints the contacts of all,
 * one a line, in the order of subjobs and ranks. Java 11 or later.
 *
 *     java Meet.java CONTACT [RANK]      RANK is `assign` unless it is given
 *     java Meet.java --decode LEVEL      prints the data of all tasks in the level-n data at standard input
 *
 * GPC_JOB_HANDLE               where this task registers
 * GPC_MULTIJOB_HANDLE          the resource above; used where the service does not register there itself
 * GPC_SUBJOB_RANK              the rank of this job there
 * GPC_RENDEZVOUS_TOKEN_FILE    the file that has the service's token, if it wants one
 * GPC_RENDEZVOUS_CA_FILE       certificates that an https service is checked by
 * MEET_SECONDS                 how long to try, 300 unless it is set
 *
 * Bytes that a terminal would act upon, and backslashes, are printed as \xNN.
 */

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.net.ProxySelector;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodySubscriber;
import java.net.http.HttpResponse.BodySubscribers;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.SecureRandom;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLHandshakeException;
import javax.net.ssl.TrustManagerFactory;

public final class Meet {
    /** Most digits of a count: enough for 999 TB. */
    private static final int DIGITS_MAX = 15;

    /** Longest answer, bytes. */
    private static final int ANSWER_MAX = 1 << 30;

    /** Longest time for an answer, seconds. */
    private static final long ANSWER_SECONDS = 60;

    /** Highest level that a service has. */
    private static final int LEVEL_MAX = 64;

    /** What ends this task, for people. */
    private static final class Failure extends Exception {
        private static final long serialVersionUID = 1;

        Failure(String why) {
            super(why);
        }
    }

    /** Reads an answer, and refuses one that is too long. */
    private static final class Bounded implements BodySubscriber<byte[]> {
        private final BodySubscriber<byte[]> bytes = BodySubscribers.ofByteArray();
        private Flow.Subscription subscription;
        private long length;

        @Override
        public CompletionStage<byte[]> getBody() {
            return bytes.getBody();
        }

        @Override
        public void onSubscribe(Flow.Subscription subscription) {
            this.subscription = subscription;
            bytes.onSubscribe(subscription);
        }

        @Override
        public void onNext(List<ByteBuffer> items) {
            for (ByteBuffer item : items) {
                length += item.remaining();
            }
            if (length <= ANSWER_MAX) {
                bytes.onNext(items);
            } else {
                subscription.cancel();
                bytes.onError(new IOException("an answer is longer than " + ANSWER_MAX + " bytes"));
            }
        }

        @Override
        public void onError(Throwable error) {
            bytes.onError(error);
        }

        @Override
        public void onComplete() {
            bytes.onComplete();
        }
    }

    /** An answer of the service. */
    private static final class Answer {
        final int status;
        final int level;
        final byte[] body;

        Answer(HttpResponse<byte[]> response) throws Failure {
            status = response.statusCode();
            String text = response.headers().firstValue("Rendezvous-Level").orElse("0");
            level = text.matches("[0-9]{1,2}") ? Integer.parseInt(text) : LEVEL_MAX + 1;
            if (level > LEVEL_MAX || level == 0 && status == 200) {
                throw new Failure("a completion has a level from 1 to " + LEVEL_MAX);
            }
            body = response.body();
        }

        /** What the service says of a failure, without what a terminal would act upon. */
        Failure refused() {
            byte[] start = java.util.Arrays.copyOf(body, Math.min(body.length, 600));
            return new Failure("status " + status + ": " + new String(line(start), StandardCharsets.UTF_8));
        }
    }

    /** The data of all tasks in data of this level. Nothing may be missing or left over. */
    static List<byte[]> decode(int level, byte[] data) throws Failure {
        List<byte[]> found = new ArrayList<>();
        // Values that are awaited at each depth; at the depth `level` a value is bytes.
        long[] missing = new long[level + 2];
        missing[0] = 1;
        int depth = 0;
        int at = 0;
        while (depth >= 0) {
            if (missing[depth] == 0) {
                depth--;
                continue;
            }
            missing[depth]--;
            int start = at;
            long count = 0;
            while (at < data.length && at - start <= DIGITS_MAX && data[at] >= '0' && data[at] <= '9') {
                count = 10 * count + (data[at++] - '0');
            }
            boolean zeros = at - start > 1 && data[start] == '0';
            if (at == start || at - start > DIGITS_MAX || zeros || at == data.length || data[at] != ' ') {
                throw new Failure("byte " + start + " of the data: a count is missing or malformed");
            }
            at++;
            if (depth < level) {
                missing[++depth] = count;
            } else if (data.length - at < count) {
                throw new Failure("the data end too early");
            } else {
                found.add(java.util.Arrays.copyOfRange(data, at, at + (int) count));
                at += (int) count;
            }
        }
        if (at != data.length) {
            throw new Failure("byte " + at + " of the data: something follows them");
        }
        return found;
    }

    /** Bytes as they may be printed. */
    static byte[] line(byte[] data) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (byte one : data) {
            if (one >= 0 && one < 32 || one == '\\' || one == 127) {
                out.writeBytes(String.format("\\x%02x", one).getBytes(StandardCharsets.US_ASCII));
            } else {
                out.write(one);
            }
        }
        return out.toByteArray();
    }

    /** A task. The same token in all its requests makes it safe to ask again where an answer was lost. */
    private static final class Task {
        private final HttpClient client;
        private final String token;
        private final String serviceToken;
        private final long seconds;
        private final long begun = System.nanoTime();
        private long rank = -1;

        Task() throws Failure, IOException {
            seconds = seconds();
            client = client();
            byte[] drawn = new byte[16];
            new SecureRandom().nextBytes(drawn);
            StringBuilder text = new StringBuilder();
            for (byte one : drawn) {
                text.append(String.format("%02x", one));
            }
            token = text.toString();
            String file = System.getenv("GPC_RENDEZVOUS_TOKEN_FILE");
            serviceToken = file == null || file.isEmpty() ? null : firstLine(Path.of(file));
        }

        private long nanosLeft() {
            return Duration.ofSeconds(seconds).toNanos() - (System.nanoTime() - begun);
        }

        private boolean isOver() {
            return nanosLeft() <= 0;
        }

        /** One attempt. A timeout of a request ends with the head of the answer; this one holds for the content, too. */
        private Answer once(HttpRequest request) throws Failure, IOException, InterruptedException {
            CompletableFuture<HttpResponse<byte[]>> answer = client.sendAsync(request, info -> new Bounded());
            try {
                long limit = Math.min(Duration.ofSeconds(ANSWER_SECONDS).toNanos(), Math.max(nanosLeft(), 1));
                return new Answer(answer.get(limit, TimeUnit.NANOSECONDS));
            } catch (ExecutionException error) {
                Throwable cause = error.getCause();
                throw cause instanceof IOException ? (IOException) cause : new IOException(cause);
            } catch (TimeoutException error) {
                throw new IOException("no whole answer in time", error);
            } finally {
                answer.cancel(true);
            }
        }

        /** Asks until there is an answer. */
        private Answer ask(String method, String handle, String what, byte[] data) throws Failure, InterruptedException {
            int mark = handle.indexOf('?');
            if (mark < 0 || !handle.startsWith("http://") && !handle.startsWith("https://")) {
                throw new Failure("a handle is http://HOST:PORT/PATH?ID");
            }
            BodyPublisher body = data == null ? BodyPublishers.noBody() : BodyPublishers.ofByteArray(data);
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(handle.substring(0, mark) + "/" + handle.substring(mark + 1) + what));
            request.method(method, body).header("Registrant-Token", token);
            if (data != null) {
                request.header("Content-Type", "application/octet-stream");
            }
            if (serviceToken != null) {
                request.header("Authorization", "Bearer " + serviceToken);
            }
            String why = "no answer";
            while (!isOver()) {
                try {
                    Answer answer = once(request.build());
                    // A service that is full or is ending says 503.
                    if (answer.status != 503) {
                        return answer;
                    }
                    why = answer.refused().getMessage();
                } catch (SSLHandshakeException error) {
                    throw new Failure("the certificate is not one that GPC_RENDEZVOUS_CA_FILE vouches for: " + error.getMessage());
                } catch (IOException error) {
                    why = error.toString();
                }
                Thread.sleep(1000);
            }
            throw new Failure("there was no completion within " + seconds + " s; the last failure: " + why);
        }

        /**
         * Waits until the rendezvous is complete. Registers data before, if there are any, and again each time: that keeps
         * the registration, and brings it back if this task was silent for longer than its lease.
         */
        Answer meet(String handle, String wanted, byte[] data) throws Failure, InterruptedException {
            String query = "rank=" + URLEncoder.encode(wanted, StandardCharsets.UTF_8) + "&lease=60";
            while (!isOver()) {
                if (data != null) {
                    Answer registered = ask("POST", handle, "/registrants?" + query, data);
                    Matcher found = Pattern.compile("\"rank\": *(\\d+)").matcher(new String(registered.body, StandardCharsets.UTF_8));
                    if (registered.status != 201 || !found.find()) {
                        throw registered.refused();
                    }
                    rank = Long.parseLong(found.group(1));
                }
                Answer answer = ask("GET", handle, "/completion?of=top&wait=20", null);
                if (answer.status == 200) {
                    return answer;
                }
                if (answer.status != 204) {
                    throw answer.refused();
                }
            }
            throw new Failure("there was no completion within " + seconds + " s");
        }

        private static long seconds() throws Failure {
            String text = System.getenv("MEET_SECONDS");
            if (text == null || text.isEmpty()) {
                return 300;
            }
            if (!text.matches("[0-9]{1,6}")) {
                throw new Failure("MEET_SECONDS is a number from 1 to 999999");
            }
            return Long.parseLong(text);
        }

        private static HttpClient client() throws Failure, IOException {
            // HTTP/1.1: over plain http the client would ask for an upgrade otherwise.
            HttpClient.Builder client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1);
            client.connectTimeout(Duration.ofSeconds(10)).proxy(ProxySelector.of(null));
            String file = System.getenv("GPC_RENDEZVOUS_CA_FILE");
            return file == null || file.isEmpty() ? client.build() : client.sslContext(trusting(Path.of(file))).build();
        }

        /** Accepts the certificates of this file, and those that they have signed. */
        private static SSLContext trusting(Path file) throws Failure, IOException {
            try (InputStream bytes = Files.newInputStream(file)) {
                KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
                store.load(null, null);
                for (Certificate one : CertificateFactory.getInstance("X.509").generateCertificates(bytes)) {
                    store.setCertificateEntry("authority " + store.size(), one);
                }
                if (store.size() == 0) {
                    throw new Failure(file + " has no certificate");
                }
                TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
                trust.init(store);
                SSLContext context = SSLContext.getInstance("TLS");
                context.init(null, trust.getTrustManagers(), null);
                return context;
            } catch (GeneralSecurityException error) {
                throw new Failure(file + ": " + error.getMessage());
            }
        }
    }

    private static String firstLine(Path file) throws Failure, IOException {
        String line = Files.readString(file).lines().findFirst().orElse("").trim();
        if (line.isEmpty()) {
            throw new Failure(file + " has no token");
        }
        return line;
    }

    /** A variable of the environment, by its neutral name or the original one; null if it is not set. */
    private static String variable(String name) {
        for (String prefix : List.of("GPC_", "GLOBUS_GRAM_")) {
            String value = System.getenv(prefix + name);
            if (value != null && !value.isEmpty()) {
                return value;
            }
        }
        return null;
    }

    private static List<byte[]> run(String[] arguments) throws Failure, IOException, InterruptedException {
        boolean decodes = arguments.length > 0 && arguments[0].equals("--decode");
        if (decodes && arguments.length == 2 && arguments[1].matches("[0-9]{1,2}") && Integer.parseInt(arguments[1]) <= LEVEL_MAX) {
            return decode(Integer.parseInt(arguments[1]), System.in.readAllBytes());
        }
        if (decodes || arguments.length < 1 || arguments.length > 2) {
            throw new Failure("usage: Meet CONTACT [RANK], or Meet --decode LEVEL");
        }
        String job = variable("JOB_HANDLE");
        String multijob = variable("MULTIJOB_HANDLE");
        String subjob = variable("SUBJOB_RANK");
        if (job == null) {
            throw new Failure("GPC_JOB_HANDLE is not set: it says where to register");
        }
        if (arguments[0].indexOf('\ufffd') >= 0) {
            throw new Failure("the contact is no text in the character set of this process: set LC_ALL to one of UTF-8");
        }
        Task task = new Task();
        String wanted = arguments.length == 2 ? arguments[1] : "assign";
        Answer whole = task.meet(job, wanted, arguments[0].getBytes(StandardCharsets.UTF_8));
        if (multijob != null && whole.level == 1) {
            // The service does not register above: the task of rank 0 is the controlling task.
            boolean controls = task.rank == 0;
            whole = task.meet(multijob, subjob == null ? "assign" : subjob, controls ? whole.body : null);
        }
        return decode(whole.level, whole.body);
    }

    public static void main(String[] arguments) throws InterruptedException {
        try {
            List<byte[]> contacts = run(arguments);
            PrintStream out = System.out;
            for (byte[] contact : contacts) {
                byte[] line = line(contact);
                out.write(line, 0, line.length);
                out.write('\n');
            }
            if (out.checkError()) {
                throw new Failure("the contacts cannot be printed");
            }
        } catch (Failure | IllegalArgumentException failure) {
            System.err.println("Meet: " + failure.getMessage());
            System.exit(1);
        } catch (IOException failure) {
            // The message of a file that is missing is its name alone.
            System.err.println("Meet: " + failure);
            System.exit(1);
        }
    }
}
