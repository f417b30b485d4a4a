// A version edited: what is saved is another version. Published content never changes.
import { useAddress } from "../browser/address.js";
import type { Workflow } from "../browser/resources.js";
import { Editor } from "./editor.js";

export default function EditTab({ workflow }: { workflow: Workflow }) {
  const [, change] = useAddress();
  const { version: _, published: _published, created_at: _at, created_by: _by, ...initial } = workflow;
  return (
    <>
      <p className="quiet">
        What you save becomes a version of its own; version {workflow.version} stays as it is. The same content again is
        the same version.
      </p>
      <Editor initial={initial} onStored={({ version }) => change({ version, tab: undefined }, "keep")} />
    </>
  );
}
