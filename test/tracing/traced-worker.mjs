// A worker with OpenTelemetry in a process of its own. The service `shop`: `flaky` succeeds at its second attempt, `broken` never does, and each
// action calls something of its own, in a span below.
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { context, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { SimpleSpanProcessor, StackContextManager, TracerProvider } from "@opentelemetry/sdk-trace";

const [grpc, api, collector] = process.argv.slice(2);
const exporter = new OTLPTraceExporter({ url: `${collector}/v1/traces` });
const spanProcessors = [new SimpleSpanProcessor({ exporter })];
const resource = resourceFromAttributes({ "service.name": "shop" });
trace.setGlobalTracerProvider(new TracerProvider({ resource, spanProcessors }));
context.setGlobalContextManager(new StackContextManager().enable());

const sdk = pathToFileURL(join(process.cwd(), "src", "sdk", "worker", "dist", "index.js")).href;
const { ActionError, createWorker, defineAction } = await import(sdk);
const worker = createWorker({ service: "shop", grpc, api, token: process.env.TOKEN });
for (const name of ["reserve", "ship", "flaky", "broken", "release"]) {
  const contract = defineAction({
    ...{ service: "shop", name, input: { type: "object" }, output: { type: "object" }, compensable: true },
  });
  worker.handle(contract, (_, { attempt }) => {
    trace.getTracer("shop").startSpan(`own ${name}`).end();
    if (name === "broken") throw new ActionError("no_money", "none is left", { retryable: false });
    if (name === "flaky" && attempt === 1) throw new ActionError("busy", "later", { retryable: true });
    return {};
  });
}
await worker.start();
