// The data keys of a tenant over HTTP, with encryption at rest: what there is, and their destruction. How keys are made, used and destroyed is
// store/sealed.
import { tenantsOf } from "../access/index.js";
import { notConfigured, notFound } from "../errors.js";
import { dataKeysItem } from "../store/lists/data-keys.js";
import type { ApiDeps } from "./deps.js";
import { path, Uuid } from "./http/parameters.js";
import { one, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";

const URL = "/api/v1/data_keys/:tenant_id";
const params = path({ tenant_id: Uuid });

export function dataKeyRoutes(app: Api, { sql, dataKeys }: ApiDeps): void {
  const about = { tags: ["access"], "x-saga-role": "platform" as const, params };
  const found = async (principal: Parameters<typeof tenantsOf>[0], tenantId: string) => {
    if (!dataKeys) throw notConfigured("encryption at rest is off: there are no data keys");
    const tenants = tenantsOf(principal);
    const item = tenants === "*" || tenants.includes(tenantId) ? await dataKeysItem(sql, tenantId) : undefined;
    if (!item) throw notFound(`the tenant ${tenantId} has no data keys`);
    return item;
  };

  const read = {
    ...about,
    summary: "Get how many data keys a tenant has, and how far their destruction is",
    response: responses({ 200: one("The keys.", "DataKeys") }, 400, 404, 501),
  };
  app.get(URL, { schema: read }, ({ principal, params: { tenant_id: tenantId } }) => found(principal, tenantId));

  const destroy = {
    ...about,
    summary: "Destroy the data keys of a tenant: nothing that was sealed under them can ever be read again",
    response: responses({ 200: one("They are destroyed, now or before.", "DataKeys") }, 400, 404, 501),
  };
  app.delete(URL, { schema: destroy }, async (request) => {
    const { principal, params: given } = request;
    const { tenant_id: tenantId } = given;
    const { active } = await found(principal, tenantId);
    await dataKeys?.destroy(tenantId);
    if (active !== 0) request.did("data keys destroyed", { tenant: tenantId, keys: active });
    return found(principal, tenantId);
  });
}
