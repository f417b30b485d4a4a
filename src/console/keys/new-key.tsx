// The dialog that makes a key, and shows it once. The key is in a box that is emptied when the dialog closes: no cache, no storage, no address and no
// state of React has it.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { usePrincipal } from "../browser/access.js";
import { ApiError, post } from "../browser/client.js";
import type { NewApiKey } from "../browser/resources.js";
import { Dialog } from "../parts/dialog.js";
import { Refused } from "../parts/notes.js";
import { Expiry, Lists, Name, Roles, Tenants } from "./fields.js";
import { bodyOf, EMPTY, memberOf, offerOf, problemOf } from "./grant.js";
import { type Made, ShownKey } from "./shown-key.js";

export function NewKey({ onClose }: { onClose: () => void }) {
  const [made, setMade] = useState<Made>();
  return (
    <Dialog title={made ? "The new key" : "New API key"} onClose={onClose}>
      {made ? <ShownKey {...made} onClose={onClose} /> : <Form onMade={setMade} onClose={onClose} />}
    </Dialog>
  );
}

interface FormProps {
  readonly onMade: (made: Made) => void;
  readonly onClose: () => void;
}

function Form({ onMade, onClose }: FormProps) {
  const [fields, setFields] = useState(EMPTY);
  const offer = offerOf(usePrincipal());
  const make = useMake(onMade);
  const details = make.error instanceof ApiError ? make.error.details : [];
  const both = {
    ...{ fields, offer },
    change: (changes: Partial<typeof EMPTY>) => setFields((before) => ({ ...before, ...changes })),
    problem: (member: string) => problemOf(details, member),
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    make.mutate(bodyOf(fields, Date.now()));
  };
  return (
    <form onSubmit={submit} className="new-key" autoComplete="off">
      <Name {...both} />
      <Roles {...both} />
      {offer.tenant && <Tenants {...both} />}
      <Lists {...both} />
      <Expiry {...both} />
      {make.error && <Failed error={make.error} />}
      <div className="row">
        <button type="submit" className="primary" disabled={make.isPending || fields.roles.length === 0}>
          Make the key
        </button>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </form>
  );
}

/** It is sent once: a repeat would make another key. */
function useMake(onMade: FormProps["onMade"]) {
  const queries = useQueryClient();
  return useMutation({
    // The key is not what the mutation answers: that is kept for minutes.
    mutationFn: async (body: object) => {
      const { key, ...of } = await post<NewApiKey>("/api_keys", body);
      return onMade({ of, box: { key } });
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ["api_keys"] }),
  });
}

const MEMBERS = ["name", "roles", "tenant_id", "tenants", "workflows", "services", "secrets", "expires_at"];

/** What stands at its field is not said twice. */
function Failed({ error }: { error: Error }) {
  if (!(error instanceof ApiError))
    return (
      <div className="refused" role="alert">
        <p>
          There was no answer. The key may have been made, and nobody can see it any more: look for it in the list,
          revoke it, and make another.
        </p>
      </div>
    );
  const { status, code, message, details } = error;
  const rest = details.filter(({ path }) => !MEMBERS.includes(memberOf(path)));
  if (details.length > 0 && rest.length === 0)
    return (
      <p className="key-fault" role="alert">
        No key was made: see above.
      </p>
    );
  return <Refused error={new ApiError(status, { error: code, message, details: [...rest], request_id: "" })} />;
}
