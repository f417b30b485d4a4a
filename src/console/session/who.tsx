// Who uses the console, in the head of every page, and the way out. With access off there is nobody to name.
import { useState } from "react";
import { usePrincipal } from "../browser/access.js";
import type { Principal } from "../browser/resources.js";
import { session } from "../browser/session.js";
import { Refused } from "../parts/notes.js";
import { isNarrowed } from "./may.js";
import "./session.css";

const CARD = "who-card";

export function Who() {
  const principal = usePrincipal();
  if (!principal) return null;
  return (
    <div className="who">
      <button type="button" popoverTarget={CARD} title="Who you are, and the way out">
        {principal.sub}
      </button>
      <section id={CARD} popover="auto" className="card who-card" aria-label="Who you are">
        <Facts of={principal} />
        <LogOut />
      </section>
    </div>
  );
}

const Facts = ({ of: principal }: { of: Principal }) => (
  <dl>
    <dt>Subject</dt>
    <dd>
      {principal.sub} <span className="quiet">{principal.kind}</span>
    </dd>
    <dt>Roles</dt>
    <dd>{principal.roles.join(", ") || "none"}</dd>
    <dt>Tenant</dt>
    <dd>{tenantOf(principal)}</dd>
    {isNarrowed(principal) && (
      <>
        <dt>Workflows</dt>
        <dd>{principal.workflows?.join(", ") || "none"}</dd>
      </>
    )}
  </dl>
);

const tenantOf = ({ roles, tenant_id: id }: Principal): string =>
  roles.includes("platform") ? "all tenants" : (id ?? "none");

export function LogOut() {
  const [error, setError] = useState<Error>();
  return (
    <>
      {error && <Refused error={error} />}
      <button type="button" onClick={() => session.logOut().catch(setError)}>
        Log out
      </button>
    </>
  );
}
