// The question before a key is revoked: what ends with it. A revoked key stays in the list.
import { usePrincipal } from "../browser/access.js";
import { useAct } from "../browser/act.js";
import { part, send } from "../browser/client.js";
import type { ApiKey } from "../browser/resources.js";
import { Dialog } from "../parts/dialog.js";
import { Refused } from "../parts/notes.js";
import { When } from "../parts/values.js";

export function Revoke({ of: { id, name, last_used_at }, onClose }: { of: ApiKey; onClose: () => void }) {
  const principal = usePrincipal();
  const revoke = useAct(() => send("DELETE", `/api_keys/${part(id)}`), { changes: ["api_keys"], onDone: onClose });
  const isOwn = principal?.kind !== "user" && principal?.sub === id;
  return (
    <Dialog title="Revoke the key?" onClose={onClose}>
      <p className="key-name">
        <bdi>{name}</bdi> <code className="quiet">{id}</code>
      </p>
      <p>Within 5 s every node refuses it. This cannot be undone. With it end:</p>
      <ul>
        <li>the streams and the worker connections that were opened with it,</li>
        <li>the sessions that were opened with it in the console,</li>
        <li>the bulk jobs that it or one of these sessions began; what they have done stays.</li>
      </ul>
      <p>Runs that it has started go on, and keys that it has made stay.</p>
      <p>
        {last_used_at === undefined ? (
          "It has never been used."
        ) : (
          <>
            It was last used <When at={last_used_at} />.
          </>
        )}
      </p>
      {isOwn && (
        <p className="refused">This is the key that you are logged in with: you will have to log in with another.</p>
      )}
      {revoke.error && <Refused error={revoke.error} />}
      <div className="row">
        <button type="button" className="danger" disabled={revoke.isPending} onClick={() => revoke.mutate(undefined)}>
          Revoke
        </button>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
