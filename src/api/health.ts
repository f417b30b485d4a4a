// Probes. Never authenticated. Liveness asks nothing of anybody; readiness asks whether this node may get requests.
import type { FastifyInstance } from "fastify";
import { overloaded } from "../errors.js";
import type { ApiDeps } from "./index.js";
import { responses } from "./schemas.js";

const STORE_ANSWERS_MS = 2000;
const STATUS = { description: "It is.", type: "object", properties: { status: { type: "string" } } };

export function healthRoutes(app: FastifyInstance, deps: ApiDeps): void {
  for (const path of ["/healthz", "/livez", "/health", "/health/live"]) {
    const schema = { tags: ["probes"], summary: "Whether the process runs", response: { 200: STATUS } };
    app.get(path, { schema }, async () => ({ status: "ok" }));
  }
  for (const path of ["/readyz", "/health/ready"]) {
    const schema = { tags: ["probes"], summary: "Whether the service is ready", response: responses({ 200: STATUS }) };
    app.get(path, { schema }, async () => {
      if (!deps.ready()) throw overloaded("the service is starting or shutting down");
      if (!(await storeAnswers(deps))) throw overloaded("the store does not answer");
      return { status: "ready" };
    });
  }
}

async function storeAnswers({ sql }: ApiDeps): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, STORE_ANSWERS_MS, false);
  });
  const answer = sql`select 1`.then(
    () => true,
    () => false,
  );
  try {
    return await Promise.race([answer, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}
