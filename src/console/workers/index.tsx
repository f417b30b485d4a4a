// Who serves what: actions that nobody serves first, then the workers by service, then the registered actions. The parts are in files beside it.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMay } from "../browser/access.js";
import { useAddress } from "../browser/address.js";
import { get } from "../browser/client.js";
import type { List, Unserved, Worker } from "../browser/resources.js";
import { useTitle } from "../browser/title.js";
import { type KnownNodes, nodeText, useKnownNodes } from "../cluster/node-name.js";
import { Answer } from "../parts/notes.js";
import { Pager, useOffset } from "../parts/pager.js";
import { Actions } from "./actions.js";
import { Calls } from "./calls.js";
import { Services } from "./services.js";
import { UnservedActions } from "./unserved.js";
import { transportName } from "./workers.js";
import "./workers.css";

/** What `GET /workers` answers. */
interface WorkersPage extends List<Worker> {
  readonly unserved: readonly Unserved[];
  readonly silent_nodes?: readonly string[];
  readonly left_off?: number;
}

const EVERY_MS = 2_000;
const PER_PAGE = 100;

export default function Page() {
  useTitle("Workers");
  const may = useMay();
  const nodes = useKnownNodes();
  return (
    <>
      <h1>Workers</h1>
      <Answer of={useWorkers()}>
        {(page) => (
          <>
            <UnservedActions actions={page.unserved} />
            <Silent page={page} nodes={nodes} />
            <section aria-labelledby="connected">
              <h2 id="connected">Connected workers</h2>
              <Filters />
              <Services workers={page.items} nodes={nodes} />
              <Pager of={page} label="workers" />
            </section>
          </>
        )}
      </Answer>
      {may("getMetrics") && <Calls />}
      {may("listActions") && <Actions />}
    </>
  );
}

function useWorkers() {
  const [parameters] = useAddress();
  const offset = useOffset();
  const [service, transport] = [parameters.get("service") ?? "", parameters.get("transport") ?? ""];
  return useQuery({
    queryKey: ["workers", { service, transport, offset }],
    queryFn: ({ signal }) =>
      get<WorkersPage>("/workers", { query: { service, transport, offset, limit: PER_PAGE }, signal }),
    placeholderData: keepPreviousData,
    refetchInterval: EVERY_MS,
  });
}

function Silent({ page, nodes }: { page: WorkersPage; nodes: KnownNodes }) {
  const { silent_nodes: silent = [], left_off = 0 } = page;
  return (
    <>
      {silent.length > 0 && (
        <p className="refused">
          These nodes did not answer in time, so that their workers are missing:{" "}
          {silent.map((id) => nodeText(id, nodes)).join("; ")}
        </p>
      )}
      {left_off > 0 && <p className="quiet">{left_off} more workers did not fit into the answers of their nodes.</p>}
    </>
  );
}

function Filters() {
  const [parameters, change] = useAddress();
  const set = (name: string) => (event: { target: { value: string } }) =>
    change({ [name]: event.target.value, offset: undefined });
  return (
    <div className="row">
      <label>
        Service
        <input type="search" value={parameters.get("service") ?? ""} onChange={set("service")} placeholder="its name" />
      </label>
      <label>
        Transport
        <select value={parameters.get("transport") ?? ""} onChange={set("transport")}>
          <option value="">any</option>
          {["grpc", "http", "rmq"].map((transport) => (
            <option key={transport} value={transport}>
              {transportName(transport)}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}
