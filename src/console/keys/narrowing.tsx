// What a key is narrowed to, in words: an absent list of workflows is all of them, an absent list of services or secrets is none.
import type { ApiKey } from "../browser/resources.js";

const SHOWN = 4;

export function Narrowing({ of: { workflows, services, secrets, tenants } }: { of: ApiKey }) {
  return (
    <ul className="narrowing">
      <Some what="workflows" of={workflows ?? ["*"]} />
      {services && <Some what="services" of={services} />}
      {secrets && <Some what="secrets" of={secrets} />}
      {tenants && <Some what="tenants" of={tenants} />}
    </ul>
  );
}

function Some({ what, of }: { what: string; of: readonly string[] }) {
  if (of.includes("*")) return <li className="quiet">all {what}</li>;
  if (of.length === 0) return <li>no {what}</li>;
  return (
    <li>
      <span className="quiet">{what}</span> <Ids of={of.slice(0, SHOWN)} />
      {of.length > SHOWN && (
        <details>
          <summary>
            {of.length - SHOWN} more<span className="hidden"> {what}</span>
          </summary>
          <Ids of={of.slice(SHOWN)} />
        </details>
      )}
    </li>
  );
}

const Ids = ({ of }: { of: readonly string[] }) =>
  of.map((id, nth) => (
    <span key={id}>
      {nth > 0 && ", "}
      <code>{id}</code>
    </span>
  ));
