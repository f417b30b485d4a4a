// Which workflow to start: it leads to the workflow's own page, which has the form of its inputs.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { get, part } from "../browser/client.js";
import type { List, Workflow } from "../browser/resources.js";
import { Dialog } from "../parts/dialog.js";
import { Answer } from "../parts/notes.js";

const MAX_READ = 500;
const MAX_SHOWN = 12;

export function StartDialog({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const query = { limit: MAX_READ };
  const workflows = useQuery({
    queryKey: ["workflows", query],
    queryFn: ({ signal }) => get<List<Workflow>>("/workflows", { query, signal }),
  });
  return (
    <Dialog title="Start a run of which workflow?" onClose={onClose}>
      <label>
        Its id or name contains
        <input type="search" value={text} onChange={({ target }) => setText(target.value)} />
      </label>
      <Answer of={workflows}>{({ items }) => <Choices of={items.filter((each) => fits(each, text))} />}</Answer>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </Dialog>
  );
}

const fits = ({ id, name, published }: Workflow, text: string) =>
  published && `${id} ${name}`.toLowerCase().includes(text.trim().toLowerCase());

function Choices({ of }: { of: readonly Workflow[] }) {
  if (of.length === 0) return <p role="status">No published workflow is called so.</p>;
  return (
    <>
      <ul className="choices">
        {of.slice(0, MAX_SHOWN).map(({ id, name }) => (
          <li key={id}>
            <Link href={`/workflows/${part(id)}?tab=start`}>{id}</Link>
            {name !== id && <span className="quiet"> {name}</span>}
          </li>
        ))}
      </ul>
      {of.length > MAX_SHOWN && <p className="quiet">And {of.length - MAX_SHOWN} more: write more of the name.</p>}
    </>
  );
}
