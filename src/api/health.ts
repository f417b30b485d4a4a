// Probes, which are never authenticated, and the page of metrics. Liveness depends on nothing outside the process; readiness says whether this node
// should get requests.
import { clearTimeout, setTimeout } from "../ambient.js";
import { overloaded } from "../errors.js";
import { formatFor, type PageFormat, pageIn } from "../metrics/page.js";
import type { ApiDeps } from "./deps.js";
import { object, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";

const STORE_TIMEOUT_MS = 2000;
const ALIVE = object("The process runs.", { status: { type: "string" } });
const READY = object("The node takes requests.", { status: { type: "string" } });

export function healthRoutes(app: Api, deps: ApiDeps): void {
  for (const path of ["/healthz", "/livez", "/health", "/health/live"]) {
    const response = responses({ 200: ALIVE }, 400);
    const schema = {
      tags: ["probes"],
      "x-saga-role": "public" as const,
      summary: "Check that the process runs",
      response,
    };
    app.get(path, { schema }, async () => ({ status: "ok" }));
  }
  for (const path of ["/readyz", "/health/ready"]) {
    const schema = {
      tags: ["probes"],
      "x-saga-role": "public" as const,
      summary: "Check that the node takes requests",
      response: responses({ 200: READY }, 400),
    };
    app.get(path, { schema }, async () => {
      if (!deps.ready()) throw overloaded("the service is starting or shutting down");
      const fault = await storeFault(deps);
      if (fault !== undefined) throw overloaded(fault);
      return { status: "ready" };
    });
  }
}

/** Why the store cannot take commits, if it cannot. */
async function storeFault({ upkeep }: ApiDeps): Promise<string | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const away = "the store does not answer";
  const timeout = new Promise<string>((resolve) => {
    timer = setTimeout(resolve, STORE_TIMEOUT_MS, away);
  });
  // A standby, or a primary that was made read-only: it answers, and refuses every commit.
  const answer = upkeep<{ read_only: string }[]>`select current_setting('transaction_read_only') as read_only`.then(
    ([row]) => (row?.read_only === "on" ? "the store is read-only" : undefined),
    () => away,
  );
  try {
    return await Promise.race([answer, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/** The Prometheus page. The metrics are those of src/metrics; the composition root adds up the processes. */
export function metricsRoutes(app: Api, { metrics, scrape }: ApiDeps): void {
  const own = async (format: PageFormat) => pageIn(format, await metrics.registry.getMetricsAsJSON());
  const text = { schema: { type: "string" } } as const;
  const content = { "text/plain": text, "application/openmetrics-text": text };
  const description = "Prometheus text format, or OpenMetrics where `Accept` names it.";
  const response = responses({ 200: { description, content } }, 400);
  const schema = {
    tags: ["probes"],
    "x-saga-role": "scrape" as const,
    summary: "Get the metrics of the service",
    response,
  };
  app.get("/metrics", { schema }, async ({ headers }, reply) => {
    const { contentType, text } = await (scrape ?? own)(formatFor(headers.accept));
    return reply.headers({ "content-type": contentType, vary: "accept" }).serializer(String).send(text);
  });
}
