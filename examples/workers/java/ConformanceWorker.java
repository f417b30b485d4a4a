// The worker that `saga conformance` tests: the actions that docs/protocol.md describes, with the worker of SagaWorker.java.

import com.google.gson.JsonObject;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

public final class ConformanceWorker {
  private static final Map<String, Integer> BEGUN = new ConcurrentHashMap<>();

  public static void main(String[] arguments) throws Exception {
    Map<String, SagaWorker.Action> actions = Map.of(
        "echo", (inputs, context) -> inputs,
        "undo_echo", ConformanceWorker::undoEcho,
        "fail", ConformanceWorker::fail,
        "slow", ConformanceWorker::slow);
    Map<String, String> env = System.getenv();
    new SagaWorker(
        "conformance",
        actions,
        env.getOrDefault("SAGA_GRPC", "127.0.0.1:9090"),
        env.getOrDefault("SAGA_API", "http://127.0.0.1:8080"),
        env.getOrDefault("SAGA_TOKEN", ""),
        8).run();
  }

  /** An effect that never happened is undone already. */
  private static JsonObject undoEcho(JsonObject inputs, SagaWorker.Context context) {
    JsonObject output = new JsonObject();
    output.addProperty("phase", context.step.getPhase().name());
    output.addProperty("undone", context.step.getForwardIdempotencyKey());
    return output;
  }

  private static JsonObject fail(JsonObject inputs, SagaWorker.Context context) throws SagaWorker.ActionError {
    throw new SagaWorker.ActionError(
        inputs.get("code").getAsString(),
        inputs.get("message").getAsString(),
        inputs.get("retryable").getAsBoolean(),
        inputs.get("outcome_unknown").getAsBoolean());
  }

  private static JsonObject slow(JsonObject inputs, SagaWorker.Context context) throws Exception {
    int executions = BEGUN.merge(context.step.getIdempotencyKey(), 1, Integer::sum);
    if (context.stopped.await(inputs.get("ms").getAsLong(), TimeUnit.MILLISECONDS))
      throw new SagaWorker.ActionError("stopped", "a cancel or the deadline stopped it", true, false);
    JsonObject output = new JsonObject();
    output.addProperty("executions", executions);
    return output;
  }
}
