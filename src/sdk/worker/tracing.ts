// Continues the trace of an attempt where the worker's program has OpenTelemetry: its code runs in a span of the program's own tracer, and what it
// calls there is part of the trace. Without `@opentelemetry/api`, or without a trace, the code just runs.
import type { ExecuteStep } from "../protocol/index.js";

type OpenTelemetry = typeof import("@opentelemetry/api");

let loading: Promise<OpenTelemetry | undefined> | undefined;

/** `consumes`: the attempt came out of a queue. Resolves, or throws, as the code does. */
export async function inTrace(step: ExecuteStep, consumes: boolean, execute: () => unknown): Promise<unknown> {
  if (step.traceparent === "") return execute();
  // It is an optional peer. Its providers are registered once in a process, whichever copy of it is loaded.
  loading ??= import("@opentelemetry/api").catch(() => undefined);
  const api = await loading;
  return api ? inSpan(api, step, consumes, execute) : execute();
}

function inSpan(api: OpenTelemetry, step: ExecuteStep, consumes: boolean, execute: () => unknown): Promise<unknown> {
  const { trace, ROOT_CONTEXT, SpanKind, SpanStatusCode } = api;
  const [, traceId = "", spanId = "", flags = "00"] = step.traceparent.split("-");
  const attempt = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  const options = {
    kind: consumes ? SpanKind.CONSUMER : SpanKind.SERVER,
    attributes: { "saga.run.id": step.run_id, "saga.step.id": step.step_id, "saga.step.attempt": step.attempt },
  };
  const name = `${step.service}.${step.action}`;
  const parent = trace.setSpanContext(ROOT_CONTEXT, attempt);
  return trace.getTracer("@saga-orchestrator/worker").startActiveSpan(name, options, parent, async (span) => {
    try {
      return await execute();
    } catch (error) {
      span.setStatus({ code: SpanStatusCode.ERROR });
      if (error instanceof Error) span.recordException(error);
      throw error;
    } finally {
      span.end();
    }
  });
}
