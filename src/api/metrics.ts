// The Prometheus page. What is counted is decided in src/metrics.ts, and how processes are added up by the composition root.
import type { FastifyInstance } from "fastify";
import type { ApiDeps } from "./index.js";

export function metricsRoutes(app: FastifyInstance, { metrics, scrape }: ApiDeps): void {
  const own = async () => ({ contentType: metrics.registry.contentType, text: await metrics.registry.metrics() });
  const response = { 200: { description: "Prometheus text format.", type: "string" } };
  const schema = { tags: ["probes"], summary: "Metrics of the service", produces: ["text/plain"], response };
  app.get("/metrics", { schema }, async (_request, reply) => {
    const { contentType, text } = await (scrape ?? own)();
    return reply.header("content-type", contentType).serializer(String).send(text);
  });
}
