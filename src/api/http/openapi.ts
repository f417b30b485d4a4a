// The OpenAPI 3.1 document, made from the schemas of the routes. How its interactive page looks is in docs-page.ts.
import swagger from "@fastify/swagger";
import swaggerUi from "@fastify/swagger-ui";
import type { Need } from "../../access/index.js";
import { packageVersion } from "../../config/package.js";
import { docsPage } from "./docs-page.js";
import { ACCESS_REFUSALS } from "./responses.js";
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
  { name: "access", description: "Credentials of programs, and sessions of people." },
  { name: "probes", description: "Liveness, readiness, metrics, the cluster." },
];

/** The ways to say who asks. With access off none is needed. */
const SECURITY_SCHEMES = {
  bearer: { type: "http", scheme: "bearer", description: "An API key, or a token of the issuer." },
  callback: {
    type: "apiKey",
    in: "header",
    name: "Saga-Callback-Token",
    description: "The `callback_token` of the dispatch that is reported on.",
  },
} as const;

function securityOf(need: Need): readonly object[] {
  if (need === "public") return [];
  return need === "callback" ? [{ callback: [] }, { bearer: [] }] : [{ bearer: [] }];
}

/** Registers before the routes: the plugin collects them as they are added. `complete` is given the paths of the document. */
export async function documentation(
  app: Api,
  { hasConsole, complete }: { readonly hasConsole: boolean; complete(paths: Paths): void },
): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: INFO,
      servers: SERVERS,
      tags: TAGS,
      components: { securitySchemes: SECURITY_SCHEMES },
    },
    transformObject: (transformed) => {
      const document = "openapiObject" in transformed ? transformed.openapiObject : transformed.swaggerObject;
      const paths = (document.paths ?? {}) as Paths;
      for (const operations of Object.values(paths)) {
        markOptionalBodies(operations);
        describeAccess(operations);
      }
      complete(paths);
      return document;
    },
    refResolver: { buildLocalReference: (json, _base, _fragment, index) => String(json.$id ?? `def-${index}`) },
  });
  await app.register(async (scope) => {
    // The plugin's routes do not say what they need.
    scope.addHook("onRoute", (route) => {
      route.schema = { ...route.schema, "x-saga-role": "public" };
    });
    await scope.register(swaggerUi, docsPage({ hasConsole }));
  });
  app.get("/openapi.json", { schema: { hide: true, "x-saga-role": "public" } }, async () => app.swagger());
}

interface Operation {
  readonly "x-saga-role"?: Need;
  security?: readonly object[];
  responses: Readonly<Record<string, object>>;
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

/** What follows from the need of each operation: which credentials it takes, and how it refuses the others. */
function describeAccess(operations: Operations): void {
  for (const operation of Object.values(operations)) {
    const { "x-saga-role": need = "public", responses } = operation;
    operation.security = securityOf(need);
    if (need === "public") continue;
    // As any other refusal, under its own description.
    const refusals = Object.entries(ACCESS_REFUSALS).map(([status, description]) => [
      status,
      { ...responses[403], description },
    ]);
    operation.responses = { ...Object.fromEntries(refusals), ...responses };
  }
}
