// The filters of the list as fields: the common ones at hand, the rest folded away. The address has what they say.
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { usePrincipal } from "../browser/access.js";
import { get } from "../browser/client.js";
import type { List, Workflow } from "../browser/resources.js";
import { FilterChoice, FilterText, FilterTime } from "../parts/form-filter.js";
import { seesSeveral } from "../parts/tenants.js";
import type { SearchProps } from "./counts.js";
import {
  FILTERS,
  type FilterName,
  isRootOnly,
  type Label,
  labelsOf,
  parseLabel,
  withChildren,
  withFilter,
  withLabel,
  withoutLabel,
} from "./filters.js";

const MORE: readonly (readonly [name: FilterName, label: string])[] = [
  ["version", "Version"],
  ["current_step", "Current step"],
  ["business_key", "Business key"],
  ["incident", "At an incident"],
  ["incident_in", "At an incident in the family of"],
  ["error_code", "Error code"],
  ["requires_manual_review", "Requires manual review"],
  ["awaited_signal", "Awaited signal"],
  ["started_after", "Started after"],
  ["started_before", "Started before"],
  ["bulk_id", "Changed by the bulk job"],
  ["forked_from", "Forked from"],
  ["tenant_id", "Tenant"],
  ["trigger_id", "Trigger"],
  ["parent_run_id", "Parent run"],
];
const YES_NO = [
  ["", "any"],
  ["true", "yes"],
  ["false", "no"],
] as const;
const NEWEST = "-started_at";
/** A person who types is not asked about every letter. */
const TYPING_MS = 150;

export function FilterBar(props: SearchProps) {
  const { search, onSearch } = props;
  const field = (name: string) => ({
    value: search.get(name) ?? "",
    onChange: (value: string) => onSearch(withFilter(search, name, value)),
  });
  const hasChildren = !isRootOnly(search);
  return (
    <search className="filters">
      <div className="row">
        <Typed label="Id or business key begins with" {...field("q")} />
        <FilterText label="Workflow" known={useWorkflowIds()} {...field("workflow_id")} />
        <LabelField {...props} />
        <FilterChoice
          label="Order"
          {...field("sort")}
          value={search.get("sort") ?? NEWEST}
          options={[
            [NEWEST, "newest first"],
            ["started_at", "oldest first"],
          ]}
        />
        <label className="check">
          <input type="checkbox" checked={hasChildren} onChange={() => onSearch(withChildren(search, !hasChildren))} />
          Branches, items and sub-sagas too
        </label>
      </div>
      <More {...props} field={field} />
    </search>
  );
}

const MAX_OFFERED = 500;

function useWorkflowIds(): readonly string[] {
  const query = { limit: MAX_OFFERED };
  const { data } = useQuery({
    queryKey: ["workflows", query],
    queryFn: ({ signal }) => get<List<Workflow>>("/workflows", { query, signal }),
    staleTime: 60_000,
  });
  return data?.items.map(({ id }) => id) ?? [];
}

type Field = (name: string) => { value: string; onChange: (value: string) => void };

function More({ search, field }: SearchProps & { field: Field }) {
  const principal = usePrincipal();
  const offered = MORE.filter(([name]) => name !== "tenant_id" || seesSeveral(principal) !== false);
  const used = offered.filter(([name]) => search.get(name)).length;
  const [wasUsed] = useState(used > 0);
  return (
    <details open={wasUsed}>
      <summary>More filters{used > 0 && ` (${used})`}</summary>
      <div className="row">
        {offered.map(([name, label]) => (
          <MoreField key={name} label={label} name={name} {...field(name)} />
        ))}
      </div>
    </details>
  );
}

function MoreField({ name, ...props }: { name: FilterName; label: string } & ReturnType<Field>) {
  const kind = FILTERS[name];
  if (kind === "flag") return <FilterChoice {...props} options={YES_NO} />;
  if (kind === "time") return <FilterTime {...props} />;
  return <FilterText {...props} type={kind === "number" ? "number" : "text"} />;
}

/** The list follows while the person types, shortly behind. */
function Typed({ label, value, onChange }: { label: string } & ReturnType<Field>) {
  const [text, setText] = useState(value);
  const [sent, setSent] = useState(value);
  if (value !== sent) {
    setSent(value);
    setText(value);
  }
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => {
      setSent(text.trim());
      onChange(text.trim());
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [text, value, onChange]);
  return (
    <label>
      {label}
      <input type="search" value={text} maxLength={2 * 256} onChange={({ target }) => setText(target.value)} />
    </label>
  );
}

function LabelField({ search, onSearch }: SearchProps) {
  const [text, setText] = useState("");
  const add = (event: FormEvent) => {
    event.preventDefault();
    const label = parseLabel(text);
    if (!label) return;
    onSearch(withLabel(search, label));
    setText("");
  };
  const remove = (label: Label) => onSearch(withoutLabel(search, label));
  return (
    <form className="labels" onSubmit={add}>
      <label>
        Label
        <input
          value={text}
          placeholder="name=value"
          pattern=".*[^=\s].*=.+"
          onChange={({ target }) => setText(target.value)}
        />
      </label>
      {labelsOf(search).map((label) => (
        <button key={label.name} type="button" title="Remove this filter" onClick={() => remove(label)}>
          {label.name}={label.value} <span aria-hidden="true">×</span>
          <span className="hidden">, remove</span>
        </button>
      ))}
    </form>
  );
}
