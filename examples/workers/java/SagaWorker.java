// A saga worker in Java over gRPC: a small, complete implementation of docs/protocol.md, to be copied. It needs grpc-java, protobuf and gson, and
// the messages that protoc makes of worker.proto. It is an example, not a published library.

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.ByteString;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.CallOptions;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import saga.worker.v1.Worker.CoordinatorMessage;
import saga.worker.v1.Worker.Drain;
import saga.worker.v1.Worker.ExecuteStep;
import saga.worker.v1.Worker.Heartbeat;
import saga.worker.v1.Worker.Hello;
import saga.worker.v1.Worker.StepFailure;
import saga.worker.v1.Worker.StepResult;
import saga.worker.v1.Worker.WorkerMessage;

/** Every method that reads or writes the state below is synchronized: actions run outside of it. */
public final class SagaWorker {
  /** An action: from its inputs to its output. An ActionError had no effect; after any other exception the step is undone on rollback. */
  public interface Action {
    JsonElement execute(JsonObject inputs, Context context) throws Exception;
  }

  public static final class ActionError extends Exception {
    final String code;
    final boolean retryable;
    final boolean outcomeUnknown;

    public ActionError(String code, String message, boolean retryable, boolean outcomeUnknown) {
      super(message);
      this.code = code;
      this.retryable = retryable;
      this.outcomeUnknown = outcomeUnknown;
    }
  }

  /** What an action knows of its step. */
  public static final class Context {
    public final ExecuteStep step;
    /** Zero after a cancel, at the deadline, and when the worker ends. */
    public final CountDownLatch stopped = new CountDownLatch(1);

    Context(ExecuteStep step) {
      this.step = step;
    }
  }

  private static final MethodDescriptor<WorkerMessage, CoordinatorMessage> METHOD =
      MethodDescriptor.<WorkerMessage, CoordinatorMessage>newBuilder()
          .setType(MethodDescriptor.MethodType.BIDI_STREAMING)
          .setFullMethodName("saga.worker.v1.WorkerService/ExecuteStep")
          .setRequestMarshaller(ProtoUtils.marshaller(WorkerMessage.getDefaultInstance()))
          .setResponseMarshaller(ProtoUtils.marshaller(CoordinatorMessage.getDefaultInstance()))
          .build();
  private static final long RESEND_MS = 1_000;
  private static final long HELLO_MS = 10_000;
  private static final long BACKOFF_MS = 100;
  private static final long BACKOFF_MAX_MS = 5_000;
  private static final long DRAIN_MS = 30_000;
  private static final int REMEMBERED = 10_000;
  private static final int MESSAGE_BYTES = 32 * 1024 * 1024;
  private static final long MAX_UINT32 = 4_294_967_295L;
  private static final Gson JSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

  private final String service;
  private final Map<String, Action> actions;
  private final String address;
  private final String api;
  private final String token;
  private final int maxInFlight;
  private final String workerId;

  private final Map<String, Context> executing = new LinkedHashMap<>();
  private final Map<String, WorkerMessage> unrecorded = new LinkedHashMap<>();
  private final Map<String, WorkerMessage> recorded = new LinkedHashMap<>() {
    @Override
    protected boolean removeEldestEntry(Map.Entry<String, WorkerMessage> eldest) {
      return size() > REMEMBERED;
    }
  };
  /** The stream that is open; null in between. */
  private Stream stream;
  private boolean draining;
  private boolean ended;
  private long pauseMs = BACKOFF_MS;
  private boolean connectedBefore;

  private final ScheduledExecutorService timers = Executors.newScheduledThreadPool(2);
  private final ExecutorService threads = Executors.newCachedThreadPool();

  public SagaWorker(String service, Map<String, Action> actions, String address, String api, String token, int maxInFlight) {
    this.service = service;
    this.actions = actions;
    this.address = address;
    this.api = api.replaceAll("/+$", "");
    this.token = token;
    this.maxInFlight = maxInFlight;
    this.workerId = service + ":" + ProcessHandle.current().pid() + ":" + UUID.randomUUID().toString().substring(0, 8);
  }

  /** Registers and connects. Returns; SIGTERM and SIGINT then drain the worker. Throws if the service refuses the actions. */
  public void run() throws Exception {
    register(false);
    Runtime.getRuntime().addShutdownHook(new Thread(this::drain));
    timers.scheduleWithFixedDelay(this::resend, RESEND_MS, RESEND_MS, TimeUnit.MILLISECONDS);
    open();
  }

  // ---- registration

  /** Tries again until the service accepts the actions, or the worker is stopped. */
  private void register(boolean onlyMissing) throws Exception {
    JsonObject body = new JsonObject();
    body.addProperty("service", service);
    body.add("actions", JSON.toJsonTree(actions.keySet().stream().map(name -> Map.of("action_name", name)).toList()));
    if (onlyMissing) body.addProperty("only_missing", true);
    for (long pause = BACKOFF_MS; !isDraining(); pause = Math.min(2 * pause, BACKOFF_MAX_MS)) {
      String problem;
      try {
        HttpURLConnection call = post(JSON.toJson(body));
        int status = call.getResponseCode();
        if (status / 100 == 2) return;
        problem = status + " " + textOf(call.getErrorStream());
        if (status / 100 == 4 && !List.of(408, 425, 429).contains(status))
          throw new IllegalStateException("the service refused to register " + service + ": " + problem);
      } catch (IOException error) {
        problem = "POST " + api + ": " + error;
      }
      log("registering again after " + problem);
      Thread.sleep(pause);
    }
  }

  private HttpURLConnection post(String body) throws IOException {
    HttpURLConnection call = (HttpURLConnection) URI.create(api + "/api/v1/registry/register").toURL().openConnection();
    call.setRequestMethod("POST");
    call.setConnectTimeout(10_000);
    call.setReadTimeout(10_000);
    call.setDoOutput(true);
    call.setRequestProperty("content-type", "application/json");
    if (!token.isEmpty()) call.setRequestProperty("authorization", "Bearer " + token);
    call.getOutputStream().write(body.getBytes(StandardCharsets.UTF_8));
    return call;
  }

  private static String textOf(InputStream stream) throws IOException {
    return stream == null ? "" : new String(stream.readNBytes(2_000), StandardCharsets.UTF_8);
  }

  private synchronized boolean isDraining() {
    return draining;
  }

  // ---- the stream

  /** A stream over a connection of its own. Its messages are handled one after the other. */
  private final class Stream implements StreamObserver<CoordinatorMessage> {
    // A frozen node is given up after 15 s.
    final ManagedChannel channel = NettyChannelBuilder.forTarget(address)
        .usePlaintext()
        .maxInboundMessageSize(MESSAGE_BYTES)
        .keepAliveTime(10, TimeUnit.SECONDS)
        .keepAliveTimeout(5, TimeUnit.SECONDS)
        .keepAliveWithoutCalls(true)
        .build();
    final ScheduledFuture<?> unanswered;
    final StreamObserver<WorkerMessage> out;
    boolean live;

    Stream(WorkerMessage hello) {
      // A service that accepts the connection and says nothing is tried again.
      unanswered = timers.schedule(() -> lost(this, "no hello_ack came"), HELLO_MS, TimeUnit.MILLISECONDS);
      out = ClientCalls.asyncBidiStreamingCall(channel.newCall(METHOD, CallOptions.DEFAULT), this);
      out.onNext(hello);
    }

    @Override
    public void onNext(CoordinatorMessage message) {
      switch (message.getMessageCase()) {
        case HELLO_ACK -> onLive(this);
        case EXECUTE -> onExecute(message.getExecute());
        case CANCEL -> onCancel(message.getCancel().getDispatchId());
        case RECORDED -> onRecorded(message.getRecorded().getDispatchId());
        default -> { } // It is of a newer protocol.
      }
    }

    @Override
    public void onError(Throwable error) {
      lost(this, error.getMessage());
    }

    @Override
    public void onCompleted() {
      lost(this, "the stream ended");
    }
  }

  private synchronized void open() {
    if (ended) return;
    // It offers neither batches nor credit: the number below is its credit, on its one stream.
    Hello.Builder hello = Hello.newBuilder()
        .setWorkerId(workerId)
        .setService(service)
        .setMaxInFlight(maxInFlight)
        .setToken(token)
        .addAllInFlight(holds().stream().limit(10_000).toList())
        .setStreamAnswers(true);
    for (String name : actions.keySet()) hello.addActions(name + "@1");
    stream = new Stream(WorkerMessage.newBuilder().setHello(hello).build());
  }

  private synchronized void onLive(Stream opened) {
    if (stream != opened || opened.live) return;
    opened.unanswered.cancel(false);
    opened.live = true;
    pauseMs = BACKOFF_MS;
    unrecorded.values().forEach(this::send);
    if (draining) send(WorkerMessage.newBuilder().setDrain(Drain.getDefaultInstance()).build());
    // The service may have come back with another database.
    if (connectedBefore) threads.execute(this::registerAgain);
    connectedBefore = true;
  }

  private void registerAgain() {
    try {
      register(true);
    } catch (Exception error) {
      log("not registered again: " + error);
    }
  }

  private synchronized void lost(Stream gone, String reason) {
    if (stream != gone) return;
    stream = null;
    gone.unanswered.cancel(false);
    gone.channel.shutdownNow();
    if (ended) return;
    log("stream lost, reconnecting: " + reason);
    timers.schedule(this::open, pauseMs, TimeUnit.MILLISECONDS);
    pauseMs = Math.min(2 * pauseMs, BACKOFF_MAX_MS);
  }

  /** Without a live stream it is lost: answers are repeated, and the rest does not matter then. */
  private synchronized void send(WorkerMessage message) {
    if (stream == null || !stream.live) return;
    try {
      stream.out.onNext(message);
    } catch (RuntimeException error) {
      log("not sent: " + error.getMessage()); // The call has ended, and says so in onError.
    }
  }

  private synchronized void resend() {
    unrecorded.values().forEach(this::send);
  }

  private synchronized List<String> holds() {
    List<String> ids = new ArrayList<>(executing.keySet());
    ids.addAll(unrecorded.keySet());
    return ids;
  }

  // ---- steps

  private synchronized void onExecute(ExecuteStep step) {
    String id = step.getDispatchId();
    if (executing.containsKey(id)) return;
    WorkerMessage answer = unrecorded.getOrDefault(id, recorded.get(id));
    if (answer != null) {
      // It was recorded, and the service asks again: it is owed once more.
      unrecorded.put(id, answer);
      send(answer);
      return;
    }
    long left = millisLeft(step);
    if (left <= 0) {
      log("dropping step " + step.getStepId() + " of run " + step.getRunId() + ": its deadline has passed");
      return;
    }
    Context context = new Context(step);
    executing.put(id, context);
    threads.execute(() -> execute(context, left));
  }

  private synchronized void onCancel(String id) {
    Context context = executing.get(id);
    if (context != null) context.stopped.countDown();
  }

  private synchronized void onRecorded(String id) {
    WorkerMessage answer = unrecorded.remove(id);
    if (answer != null) recorded.put(id, answer);
  }

  private void execute(Context context, long left) {
    ExecuteStep step = context.step;
    ScheduledFuture<?> deadline = timers.schedule(context.stopped::countDown, left, TimeUnit.MILLISECONDS);
    ScheduledFuture<?> heartbeats = step.getHeartbeatTimeoutMs() == 0 ? null : heartbeats(step);
    WorkerMessage answer = answer(context);
    deadline.cancel(false);
    if (heartbeats != null) heartbeats.cancel(false);
    synchronized (this) {
      executing.remove(step.getDispatchId());
      unrecorded.put(step.getDispatchId(), answer);
      send(answer);
    }
  }

  private ScheduledFuture<?> heartbeats(ExecuteStep step) {
    Heartbeat heartbeat = Heartbeat.newBuilder().setDispatchId(step.getDispatchId()).build();
    WorkerMessage message = WorkerMessage.newBuilder().setHeartbeat(heartbeat).build();
    // An unsigned number: what Java takes for negative is very long.
    long every = Math.max(Integer.toUnsignedLong(step.getHeartbeatTimeoutMs()) / 3, 1);
    return timers.scheduleAtFixedRate(() -> send(message), every, every, TimeUnit.MILLISECONDS);
  }

  private WorkerMessage answer(Context context) {
    ExecuteStep step = context.step;
    try {
      Action action = step.getVersion() == 1 ? actions.get(step.getAction()) : null;
      if (action == null) {
        String name = step.getAction() + "@" + step.getVersion();
        throw new ActionError("unknown_action", "this worker has no " + name, true, false);
      }
      String text = step.getInputsJson().isEmpty() ? "{}" : step.getInputsJson().toStringUtf8();
      String output = JSON.toJson(action.execute(JsonParser.parseString(text).getAsJsonObject(), context));
      return WorkerMessage.newBuilder().setResult(StepResult.newBuilder()
          .setDispatchId(step.getDispatchId()).setRunId(step.getRunId())
          .setStepId(step.getStepId()).setAttempt(step.getAttempt())
          .setResultJson(ByteString.copyFromUtf8(output))).build();
    } catch (ActionError error) {
      return failure(step, error);
    } catch (Throwable error) { // Whatever an action throws is an answer: its effect may have happened.
      return failure(step, new ActionError("error", String.valueOf(error), true, true));
    }
  }

  private static WorkerMessage failure(ExecuteStep step, ActionError error) {
    String message = error.getMessage();
    return WorkerMessage.newBuilder().setFailure(StepFailure.newBuilder()
        .setDispatchId(step.getDispatchId()).setRunId(step.getRunId())
        .setStepId(step.getStepId()).setAttempt(step.getAttempt())
        .setCode(error.code).setMessage(message.substring(0, Math.min(message.length(), 8_192)))
        .setRetryable(error.retryable).setOutcomeUnknown(error.outcomeUnknown)).build();
  }

  /** By the time that is left, because the clocks of two machines differ, as far as the message can say it. */
  private static long millisLeft(ExecuteStep step) {
    long left = Integer.toUnsignedLong(step.getTimeoutMs());
    if (left > 0 && left < MAX_UINT32) return left;
    return Duration.between(Instant.now(), Instant.parse(step.getDeadlineAt())).toMillis();
  }

  // ---- the end

  /** Asks for no more steps, and returns when every answer is recorded. Then the process ends, with 0. */
  private void drain() {
    synchronized (this) {
      draining = true;
      send(WorkerMessage.newBuilder().setDrain(Drain.getDefaultInstance()).build());
    }
    long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(DRAIN_MS);
    try {
      while (!holds().isEmpty() && System.nanoTime() < until) Thread.sleep(50);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
    synchronized (this) {
      ended = true;
      executing.values().forEach(context -> context.stopped.countDown());
      if (stream != null) stream.out.onCompleted();
    }
    // After a signal, Java would end with the number of the signal.
    Runtime.getRuntime().halt(0);
  }

  private static void log(String text) {
    System.err.println(text);
  }
}
