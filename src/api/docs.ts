// The OpenAPI 3.1 document, made from the routes' own schemas, and its interactive page.
import swagger from "@fastify/swagger";
import swaggerUi from "@fastify/swagger-ui";
import type { FastifyInstance } from "fastify";

const API_VERSION = "0.6.0";

/** Before the routes: it watches them being added. */
export async function documentation(app: FastifyInstance): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "Saga orchestration service",
        version: API_VERSION,
        description: "Runs workflows as durable sagas. Every error is the `Error` envelope.",
        license: { name: "Apache-2.0", identifier: "Apache-2.0" },
      },
      tags: [
        { name: "sagas", description: "Runs: start, read, command, watch." },
        { name: "user tasks", description: "What runs ask people for." },
        { name: "workflows", description: "Definitions and their versions." },
        { name: "registry", description: "Actions that services expose." },
        { name: "probes", description: "Liveness, readiness, metrics." },
      ],
    },
    refResolver: { buildLocalReference: (json, _base, _fragment, index) => String(json.$id ?? `def-${index}`) },
  });
  await app.register(swaggerUi, { routePrefix: "/docs" });
  app.get("/openapi.json", { schema: { hide: true } }, async () => app.swagger());
}
