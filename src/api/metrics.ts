// The Prometheus page. The metrics are defined in src/metrics.ts; the composition root adds up the processes.
import type { ApiDeps } from "./deps.js";
import { responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";

export function metricsRoutes(app: Api, { metrics, scrape }: ApiDeps): void {
  const own = async () => ({ contentType: metrics.registry.contentType, text: await metrics.registry.metrics() });
  const content = { "text/plain": { schema: { type: "string" } } };
  const response = responses({ 200: { description: "Prometheus text format.", content } }, 400);
  const schema = { tags: ["probes"], summary: "Get the metrics of the service", response };
  app.get("/metrics", { schema }, async (_request, reply) => {
    const { contentType, text } = await (scrape ?? own)();
    return reply.header("content-type", contentType).serializer(String).send(text);
  });
}
