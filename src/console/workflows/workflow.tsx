// A workflow: its head, and a tab for each thing to do with it. Which tab and which version are in the address.
import { type ComponentType, lazy, Suspense } from "react";
import { Link, useParams } from "wouter";
import { type OperationId, useMay } from "../browser/access.js";
import { numberIn, useAddress, useHref } from "../browser/address.js";
import type { Workflow } from "../browser/resources.js";
import { useTitle } from "../browser/title.js";
import { useDocument } from "../browser/versions.js";
import { Answer, Loading } from "../parts/notes.js";
import { counted } from "../parts/plural.js";
import { withUnit } from "../parts/values.js";
import { Published } from "../parts/versions.js";
import { Denied } from "../session/denied.js";
import { percent, useStats } from "./reading.js";
import "./workflows.css";

interface Tab {
  readonly id: string;
  readonly name: string;
  /** The tab is for those who may do this. Absent: for all who see the workflow. */
  readonly needs?: OperationId;
  readonly tab: ComponentType<{ workflow: Workflow }>;
}

const GRAPH: Tab = { id: "graph", name: "Graph", tab: lazy(() => import("./graph-tab.js")) };
const TABS: readonly Tab[] = [
  GRAPH,
  { id: "versions", name: "Versions", tab: lazy(() => import("./versions-tab.js")) },
  { id: "stats", name: "Stats", tab: lazy(() => import("./stats-tab.js")) },
  { id: "start", name: "Start", needs: "startSaga", tab: lazy(() => import("./start-tab.js")) },
  { id: "try", name: "Try", needs: "rehearseWorkflow", tab: lazy(() => import("./try-tab.js")) },
  { id: "edit", name: "Edit", needs: "createWorkflow", tab: lazy(() => import("./edit-tab.js")) },
];

export default function Page() {
  const { id = "" } = useParams();
  const [parameters] = useAddress();
  const workflow = useDocument<Workflow>("workflows", id, numberIn(parameters, "version"));
  const may = useMay();
  const { id: open, tab: Open, needs } = TABS.find(({ id }) => id === parameters.get("tab")) ?? GRAPH;
  useTitle(workflow.data?.name ?? id, TABS.find((tab) => tab.id === open)?.name);
  return (
    <Answer of={workflow} all="workflows">
      {(workflow) => (
        <>
          <Head workflow={workflow} />
          <Tabs open={open} />
          <Suspense fallback={<Loading />}>
            {needs && !may(needs) ? <Denied to={needs} /> : <Open key={workflow.version} workflow={workflow} />}
          </Suspense>
        </>
      )}
    </Answer>
  );
}

function Head({ workflow: { id, name, version, published, description, retention } }: { workflow: Workflow }) {
  return (
    <>
      <h1>{name}</h1>
      <p className="quiet">
        <code>{id}</code> · version {version} <Published is={published} /> · <Now id={id} />
      </p>
      {description !== undefined && <p>{description}</p>}
      {retention && <p className="quiet">{keptWords(retention)}</p>}
    </>
  );
}

/** `Kept after their end: failed runs 400 days, other runs 30 days.` */
function keptWords({ days, ...byState }: NonNullable<Workflow["retention"]>): string {
  const parts = (["succeeded", "failed", "cancelled"] as const).flatMap((state) => {
    const given = byState[`${state}_days`];
    return typeof given !== "number" ? [] : [`${state} runs ${counted(given, "day")}`];
  });
  const others = parts.length === 0 ? "runs" : "other runs";
  const rest =
    typeof days === "number" ? `${others} ${counted(days, "day")}` : `${others} as long as the service keeps all`;
  return `Kept after their end: ${[...parts, rest].join(", ")}.`;
}

function Now({ id }: { id: string }) {
  const { data } = useStats(id);
  if (!data) return null;
  const { in_flight: count, success_rate_24h: rate, concurrency, rate_limit: limited } = data;
  return (
    <>
      <Link href={`/runs?workflow_id=${id}`}>{counted(count, "run")} in flight</Link>
      {rate !== null && ` · ${percent.format(rate)} succeeded in ${withUnit("24", "h")}`}
      {concurrency && ` · ${concurrency.held} slots held, ${concurrency.waiting} runs wait for one`}
      {limited && ` · ${counted(limited.waiting, "run")} waiting for a turn`}
    </>
  );
}

function Tabs({ open }: { open: string }) {
  const href = useHref();
  const may = useMay();
  return (
    <nav className="tabs" aria-label="About this workflow">
      {TABS.filter(({ needs }) => needs === undefined || may(needs)).map(({ id, name }) => (
        <Link
          key={id}
          href={href({ tab: id === GRAPH.id ? undefined : id })}
          aria-current={id === open ? "page" : undefined}
        >
          {name}
        </Link>
      ))}
    </nav>
  );
}
