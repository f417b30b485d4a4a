// The OpenAPI 3.1 document, made from the schemas of the routes. How its interactive page looks is in docs-page.ts.
import swagger from "@fastify/swagger";
import swaggerUi from "@fastify/swagger-ui";
import { packageVersion } from "../../config/package.js";
import { docsPage } from "./docs-page.js";
import type { Api } from "./validation.js";

const INFO = {
  title: "Saga orchestration service",
  version: packageVersion(),
  description: "Runs workflows as durable sagas. Every error is the `Error` envelope.",
  license: { name: "Apache-2.0", identifier: "Apache-2.0" },
};

/** Relative to where the document is. */
const SERVERS = [{ url: "/", description: "The service that serves this document." }];

const TAGS = [
  { name: "sagas", description: "Runs: start, read, command, watch." },
  { name: "operating", description: "What operators do to runs, one by one or in bulk." },
  { name: "user tasks", description: "Input that runs ask people for." },
  { name: "events", description: "Events that runs wait for." },
  { name: "triggers", description: "What starts runs without a client." },
  { name: "workflows", description: "Workflow definitions and their versions." },
  { name: "rules", description: "Decision tables and their versions." },
  { name: "registry", description: "Actions that services expose." },
  { name: "probes", description: "Liveness, readiness, metrics, the cluster." },
];

/** Registers before the routes: the plugin collects them as they are added. `complete` is given the paths of the document. */
export async function documentation(
  app: Api,
  { hasConsole, complete }: { readonly hasConsole: boolean; complete(paths: Paths): void },
): Promise<void> {
  await app.register(swagger, {
    openapi: { openapi: "3.1.0", info: INFO, servers: SERVERS, tags: TAGS },
    transformObject: (transformed) => {
      const document = "openapiObject" in transformed ? transformed.openapiObject : transformed.swaggerObject;
      const paths = (document.paths ?? {}) as Paths;
      for (const operations of Object.values(paths)) markOptionalBodies(operations);
      complete(paths);
      return document;
    },
    refResolver: { buildLocalReference: (json, _base, _fragment, index) => String(json.$id ?? `def-${index}`) },
  });
  await app.register(swaggerUi, docsPage({ hasConsole }));
  app.get("/openapi.json", { schema: { hide: true } }, async () => app.swagger());
}

interface Operation {
  readonly requestBody?: {
    required: boolean;
    readonly content: Readonly<Record<string, { readonly schema?: object }>>;
  };
}
type Operations = Readonly<Record<string, Operation>>;
type Paths = Readonly<Record<string, Operations>>;

/** The plugin marks every body as required. A body whose schema has a default may be omitted. */
function markOptionalBodies(operations: Operations): void {
  for (const { requestBody } of Object.values(operations)) {
    if (!requestBody) continue;
    requestBody.required = !Object.values(requestBody.content).some(({ schema }) => schema && "default" in schema);
  }
}
