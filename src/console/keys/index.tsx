// The API keys that a person may see, how each is narrowed and whether it still counts, with the ways to a new one and to the end of one. No secret
// of a key is in a list.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useMay, usePrincipal } from "../browser/access.js";
import { useAddress } from "../browser/address.js";
import { get } from "../browser/client.js";
import type { ApiKey, List } from "../browser/resources.js";
import { useTitle } from "../browser/title.js";
import { FilterText } from "../parts/form-filter.js";
import { Answer } from "../parts/notes.js";
import { Pager, useOffset } from "../parts/pager.js";
import { Scroll } from "../parts/scroll.js";
import { Tenant, useSeesTenants } from "../parts/tenants.js";
import { When } from "../parts/values.js";
import { DataKeys } from "./data-keys.js";
import { Narrowing } from "./narrowing.js";
import { NewKey } from "./new-key.js";
import { Revoke } from "./revoke.js";
import "./keys.css";

export default function Page() {
  useTitle("API keys");
  const [isNew, setNew] = useState(false);
  const may = useMay();
  const isOff = usePrincipal() === undefined;
  return (
    <>
      <div className="row heading">
        <h1>API keys</h1>
        {may("createApiKey") && (
          <button type="button" className="primary" onClick={() => setNew(true)}>
            New key
          </button>
        )}
      </div>
      {isOff && (
        <p className="quiet">
          Access control is off: anyone may do everything, without a key. Keys count from the time that{" "}
          <code>SAGA_AUTH</code> is set.
        </p>
      )}
      <Keys />
      {isNew && <NewKey onClose={() => setNew(false)} />}
    </>
  );
}

function Keys() {
  const [parameters, change] = useAddress();
  const offset = useOffset();
  const tenant_id = parameters.get("tenant_id") ?? "";
  const keys = useQuery({
    queryKey: ["api_keys", "list", { tenant_id, offset }],
    queryFn: ({ signal }) => get<List<ApiKey>>("/api_keys", { query: { tenant_id, offset }, signal }),
    placeholderData: keepPreviousData,
  });
  const seesTenants = useSeesTenants(keys.data?.items ?? []) || tenant_id !== "";
  const setTenant = (value: string) => change({ tenant_id: value, offset: undefined });
  return (
    <>
      {seesTenants && (
        <search className="row">
          <FilterText label="Tenant" hint="its id" value={tenant_id} onChange={setTenant} />
        </search>
      )}
      <DataKeys tenant={tenant_id} />
      <Answer of={keys}>
        {(page) => (
          <>
            {page.items.length === 0 ? (
              <Nothing isFiltered={tenant_id !== ""} />
            ) : (
              <Table keys={page.items} seesTenants={seesTenants} />
            )}
            <Pager of={page} label="keys" />
          </>
        )}
      </Answer>
    </>
  );
}

const Nothing = ({ isFiltered }: { isFiltered: boolean }) => (
  <p className="quiet">
    {isFiltered ? "No key matches." : "There are no API keys."} A key is the credential of a program: of a service that
    starts runs, of a worker, of a dashboard.
  </p>
);

function Table({ keys, seesTenants }: { keys: readonly ApiKey[]; seesTenants: boolean }) {
  const [revoked, setRevoked] = useState<ApiKey>();
  return (
    <>
      <Scroll label="API keys" className="keys">
        <table>
          <thead>
            <tr>
              <th scope="col">Key</th>
              <th scope="col">Roles</th>
              {seesTenants && <th scope="col">Tenant</th>}
              <th scope="col">Narrowed to</th>
              <th scope="col">Made</th>
              <th scope="col">Last used</th>
              <th scope="col">Ends</th>
              <th scope="col">
                <span className="hidden">Acts</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {keys.map((key) => (
              <Row key={key.id} {...{ of: key, seesTenants }} onRevoke={() => setRevoked(key)} />
            ))}
          </tbody>
        </table>
      </Scroll>
      {revoked && <Revoke of={revoked} onClose={() => setRevoked(undefined)} />}
    </>
  );
}

interface RowProps {
  readonly of: ApiKey;
  readonly seesTenants: boolean;
  readonly onRevoke: () => void;
}

function Row({ of, seesTenants, onRevoke }: RowProps) {
  const may = useMay();
  const { id, name, roles, created_at, created_by, last_used_at, revoked_at } = of;
  return (
    <tr>
      <td>
        <bdi>{name}</bdi> <code className="quiet">{id}</code>
      </td>
      <td>
        <RoleNames of={roles} />
      </td>
      {seesTenants && (
        <td>
          <Tenant id={of.tenant_id} />
        </td>
      )}
      <td>
        <Narrowing of={of} />
      </td>
      <td>
        <When at={created_at} /> <span className="quiet maker">by {created_by}</span>
      </td>
      <td>{last_used_at === undefined ? <span className="quiet">never</span> : <When at={last_used_at} />}</td>
      <td>
        <End of={of} />
      </td>
      <td>
        {revoked_at === undefined && may("revokeApiKey") && (
          <button type="button" className="danger" onClick={onRevoke}>
            Revoke …<span className="hidden"> {name}</span>
          </button>
        )}
      </td>
    </tr>
  );
}

/** A name of a role is never torn apart. */
const RoleNames = ({ of }: { of: readonly string[] }) =>
  of.map((role, nth) => (
    <span key={role}>
      <span className="whole">
        {role}
        {nth < of.length - 1 && ","}
      </span>{" "}
    </span>
  ));

function End({ of: { revoked_at, expires_at } }: { of: ApiKey }) {
  if (revoked_at !== undefined)
    return (
      <>
        <span className="state failed">revoked</span> <When at={revoked_at} />
      </>
    );
  if (expires_at === undefined) return <span className="quiet">never</span>;
  const isOver = Date.parse(expires_at) <= Date.now();
  return (
    <>
      {isOver && <span className="state failed">expired</span>} <When at={expires_at} />
    </>
  );
}
