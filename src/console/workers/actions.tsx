// The registered actions, searched by what the address says, each with its schemas. Who serves an action now is not a matter of its registration.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useAddress } from "../browser/address.js";
import { get } from "../browser/client.js";
import type { Action, List } from "../browser/resources.js";
import { Answer } from "../parts/notes.js";
import { Pager, useOffset } from "../parts/pager.js";
import { duration, Json, When } from "../parts/values.js";
import { transportName } from "./workers.js";

export function Actions() {
  const [parameters, change] = useAddress();
  const search = parameters.get("search") ?? "";
  return (
    <section aria-labelledby="actions">
      <h2 id="actions">Registered actions</h2>
      <label>
        Search
        <input
          type="search"
          size={30}
          value={search}
          onChange={({ target }) => change({ search: target.value, actions: undefined })}
          placeholder="service, name, description"
        />
      </label>
      <Answer of={useActions(search)}>
        {(page) => (
          <>
            {page.items.length === 0 && <p className="quiet">No registered action matches.</p>}
            {page.items.map((action) => (
              <Registered key={action.id} action={action} />
            ))}
            <Pager of={page} name="actions" label="actions" />
          </>
        )}
      </Answer>
    </section>
  );
}

function useActions(search: string) {
  const offset = useOffset("actions");
  return useQuery({
    queryKey: ["actions", search, offset],
    queryFn: ({ signal }) => get<List<Action>>("/registry/actions", { query: { search, offset }, signal }),
    placeholderData: keepPreviousData,
  });
}

function Registered({ action }: { action: Action }) {
  const { service, action_name: name, version, description, compensable, deprecated } = action;
  return (
    <details className="action">
      <summary>
        <code>
          {service}.{name}@{version}
        </code>{" "}
        <span className="quiet">{description}</span> {compensable && <span className="state">compensable</span>}{" "}
        {deprecated && <span className="state compensating">deprecated</span>}
      </summary>
      <Facts action={action} />
      <div className="schemas">
        <Schema name="Input" of={action} value={action.input_schema} />
        <Schema name="Output" of={action} value={action.output_schema} />
      </div>
    </details>
  );
}

function Facts({ action }: { action: Action }) {
  const { transport, address, default_timeout_ms: timeout, default_retry: retry, error_codes: codes } = action;
  return (
    <dl>
      <dt>Transport</dt>
      <dd>
        {transportName(transport)} {address !== undefined && <code>{address}</code>}
      </dd>
      <dt>Timeout</dt>
      <dd>{timeout === undefined ? "the service's" : duration(timeout)}</dd>
      <dt>Retry</dt>
      <dd>{retry === undefined ? "the service's" : <code>{JSON.stringify(retry)}</code>}</dd>
      <dt>Error codes</dt>
      <dd>{codes === undefined ? "not documented" : codes.join(", ")}</dd>
      <dt>Dry runs</dt>
      <dd>{action.dry_run_supported ? "it takes part" : "it is left out"}</dd>
      <dt>Registered</dt>
      <dd>
        <When at={action.registered_at} />
      </dd>
    </dl>
  );
}

function Schema({ name, of: { service, action_name }, value }: { name: string; of: Action; value: object }) {
  return (
    <div>
      <h4>{name}</h4>
      <Json value={value} label={`${name} schema of ${service}.${action_name}`} />
    </div>
  );
}
