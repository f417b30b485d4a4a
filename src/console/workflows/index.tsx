// The workflows, each by its latest version, with what its runs do now. The figures of a row are read when the row is seen.
import { useQuery } from "@tanstack/react-query";
import { type RefObject, useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { useMay } from "../browser/access.js";
import { useAddress } from "../browser/address.js";
import { get } from "../browser/client.js";
import type { List, Workflow } from "../browser/resources.js";
import { useTitle } from "../browser/title.js";
import { Answer } from "../parts/notes.js";
import { Pager, useOffset } from "../parts/pager.js";
import { Tenant, useSeesTenants } from "../parts/tenants.js";
import { When, withUnit } from "../parts/values.js";
import { Published } from "../parts/versions.js";
import { Denied } from "../session/denied.js";
import { Editor } from "./editor.js";
import { percent, useStats } from "./reading.js";
import "./workflows.css";
import { Scroll } from "../parts/scroll.js";

export default function Page() {
  const [parameters] = useAddress();
  useTitle(parameters.has("new") ? "New workflow" : "Workflows");
  const may = useMay();
  if (!parameters.has("new")) return <Listed />;
  return may("createWorkflow") ? <New /> : <Denied to="createWorkflow" />;
}

const TEMPLATE = { id: "my-workflow", name: "My workflow", start: "done", steps: [{ id: "done", type: "end" }] };

function New() {
  const [, navigate] = useLocation();
  return (
    <>
      <h1>New workflow</h1>
      <Editor initial={TEMPLATE} onStored={({ id, version }) => navigate(`/workflows/${id}?version=${version}`)} />
    </>
  );
}

function Listed() {
  const may = useMay();
  const offset = useOffset();
  const workflows = useQuery({
    queryKey: ["workflows", "list", offset],
    queryFn: ({ signal }) => get<List<Workflow>>("/workflows", { query: { offset }, signal }),
  });
  return (
    <>
      <div className="row heading">
        <h1>Workflows</h1>
        {may("createWorkflow") && (
          <Link href="/workflows?new=1" className="button">
            New workflow
          </Link>
        )}
      </div>
      <Answer of={workflows}>
        {(page) => (
          <>
            {page.total === 0 ? <Nothing /> : <Table workflows={page.items} />}
            <Pager of={page} label="workflows" />
          </>
        )}
      </Answer>
    </>
  );
}

const Nothing = () => (
  <p className="quiet">
    There are no workflows. An author writes one here, or stores one with <code>POST /api/v1/workflows</code>.
  </p>
);

function Table({ workflows }: { workflows: readonly Workflow[] }) {
  // A definition may be for one tenant only. Whose its name is, the API does not say.
  const seesTenants = useSeesTenants(workflows) && workflows.some(({ tenant_id }) => typeof tenant_id === "string");
  return (
    <Scroll label="Workflows">
      <table>
        <thead>
          <tr>
            <th scope="col">Workflow</th>
            {seesTenants && <th scope="col">For tenant</th>}
            <th scope="col">Version</th>
            <th scope="col">Steps</th>
            <th scope="col">In flight</th>
            <th scope="col">Succeeded in {withUnit("24", "h")}</th>
            <th scope="col">Last run</th>
          </tr>
        </thead>
        <tbody>
          {workflows.map((workflow) => (
            <Row key={workflow.id} {...{ workflow, seesTenants }} />
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Row({ workflow, seesTenants }: { workflow: Workflow; seesTenants: boolean }) {
  const { id, tenant_id: tenant, name, version, published, steps } = workflow;
  const row = useRef<HTMLTableRowElement>(null);
  const { data } = useStats(id, useSeen(row));
  return (
    <tr ref={row}>
      <td>
        <Link href={`/workflows/${id}`}>{name}</Link> {name !== id && <code className="quiet">{id}</code>}
      </td>
      {seesTenants && (
        <td>
          <Tenant id={tenant} />
        </td>
      )}
      <td>
        {version} <Published is={published} />
      </td>
      <td>{steps.length}</td>
      <td>{data ? <Link href={`/runs?workflow_id=${id}`}>{data.in_flight.toLocaleString()}</Link> : "…"}</td>
      <td>{data ? rateOf(data.success_rate_24h) : "…"}</td>
      <td>{data ? <When at={data.last_run_at ?? undefined} /> : "…"}</td>
    </tr>
  );
}

const rateOf = (rate: number | null) => (rate === null ? "no run ended" : percent.format(rate));

/** True once it was in sight. */
function useSeen(element: RefObject<HTMLElement | null>): boolean {
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    if (!element.current) return;
    const watch = new IntersectionObserver((entries) => {
      if (entries.some(({ isIntersecting }) => isIntersecting)) setSeen(true);
    });
    watch.observe(element.current);
    return () => watch.disconnect();
  }, [element]);
  return isSeen;
}
