// The data keys of the tenant that the list is narrowed to, where encryption at rest is on, with the way to their end. Nothing brings the values back that
// were sealed under a destroyed key, so a person says in a word that it is meant.
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { isMeant, MeantWord } from "../acts/meant-word.js";
import { useMay } from "../browser/access.js";
import { useAct } from "../browser/act.js";
import { get, part, send } from "../browser/client.js";
import type { DataKeys as Keys } from "../browser/resources.js";
import { Dialog } from "../parts/dialog.js";
import { Answer, Refused } from "../parts/notes.js";
import { counted } from "../parts/plural.js";
import { When } from "../parts/values.js";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const QUERY = "data_keys";
/** While runs are on their way to their end. */
const AGAIN_MS = 2_000;
const pathOf = (tenant: string) => `/data_keys/${part(tenant)}`;

/** Asked for in a dialog: without encryption at rest there is nothing to see, and the service says so. */
export function DataKeys({ tenant }: { tenant: string }) {
  const may = useMay();
  const [isOpen, setOpen] = useState(false);
  if (!UUID.test(tenant) || !may("getDataKeys")) return null;
  return (
    <p>
      <button type="button" onClick={() => setOpen(true)}>
        Data keys of the tenant …
      </button>
      {isOpen && <KeysDialog tenant={tenant} onClose={() => setOpen(false)} />}
    </p>
  );
}

function KeysDialog({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const may = useMay();
  const keys = useQuery({
    queryKey: [QUERY, tenant],
    queryFn: ({ signal }) => get<Keys>(pathOf(tenant), { signal }),
    refetchInterval: ({ state }) => (state.data && state.data.unfinished_runs > 0 ? AGAIN_MS : false),
  });
  return (
    <Dialog title="Data keys of the tenant" onClose={onClose}>
      <Answer of={keys}>
        {({ active, destroyed, destroyed_at: at, unfinished_runs: open }) => (
          <>
            <p>
              {counted(active, "key")} in use, {destroyed} destroyed
              {at !== undefined && (
                <>
                  , the last <When at={at} />
                </>
              )}
              .
            </p>
            {open > 0 && <p role="status">{counted(open, "run")} under a destroyed key not ended yet.</p>}
            {active > 0 && may("destroyDataKeys") && <Destroy tenant={tenant} />}
          </>
        )}
      </Answer>
      <div className="row">
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

function Destroy({ tenant }: { tenant: string }) {
  const [typed, setTyped] = useState("");
  const onDone = () => setTyped("");
  const destroy = useAct(() => send("DELETE", pathOf(tenant)), { changes: [QUERY], onDone });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isMeant(typed)) destroy.mutate(undefined);
  };
  return (
    <form onSubmit={submit}>
      <p>
        If they are destroyed, nothing that was sealed for the tenant can ever be read again: inputs, variables, outputs
        and payloads of its runs. Its unfinished runs end failed, for people to look at, and undo nothing. What it
        starts afterwards gets a fresh key. Labels, business keys and names stay as they are.
      </p>
      <MeantWord typed={typed} onChange={setTyped} />
      {destroy.error && <Refused error={destroy.error} />}
      <div className="row">
        <button type="submit" className="danger" disabled={!isMeant(typed) || destroy.isPending}>
          {destroy.isPending ? "Destroying …" : "Destroy them for good"}
        </button>
      </div>
    </form>
  );
}
