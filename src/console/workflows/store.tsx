// What stores a definition as a version, as a draft or published at once. The service numbers versions, and refuses what is not valid.

import { useAct } from "../browser/act.js";
import { post } from "../browser/client.js";
import type { Workflow } from "../browser/resources.js";
import { parseObject } from "../parts/json-text.js";
import { Refused } from "../parts/notes.js";

interface Props {
  readonly text: string;
  readonly isValid: boolean;
  readonly onStored: (workflow: Workflow) => void;
}

export function Store({ text, isValid, onStored }: Props) {
  const store = useAct(
    (published: boolean) => {
      const { version: _, ...document } = parseObject(text).value as Record<string, unknown>;
      return post<Workflow>("/workflows", { ...document, published });
    },
    { changes: ["workflows"], onDone: onStored },
  );
  const isOff = !isValid || store.isPending;
  return (
    <>
      {store.error && <Refused error={store.error} />}
      <div className="row">
        <button type="button" className="primary" disabled={isOff} onClick={() => store.mutate(false)}>
          Save as a draft
        </button>
        <button type="button" disabled={isOff} onClick={() => store.mutate(true)}>
          Save and publish
        </button>
      </div>
    </>
  );
}
