// The fields of a new key, each with what it means to leave it as it is, and what the service refuses about it. Their values are with the form.
import { type ReactNode, useId } from "react";
import type { Extent, Fields, ListName, Offer, RoleName } from "./grant.js";

interface Props {
  readonly fields: Fields;
  readonly offer: Offer;
  readonly change: (changes: Partial<Fields>) => void;
  /** What the service said about a member of the request. */
  readonly problem: (member: string) => string | undefined;
}

/** Names the fault of a field to a screen reader, too. */
function Fault({ id, children }: { id: string; children: ReactNode }) {
  return (
    <p id={id} className="key-fault" role="alert">
      {children}
    </p>
  );
}

const faulty = (id: string, fault: string | undefined) =>
  fault === undefined ? {} : { "aria-invalid": true, "aria-describedby": id };

const MOST_NAME = 200;

export function Name({ fields, change, problem }: Props) {
  const id = useId();
  const fault = problem("name");
  return (
    <div>
      <label>
        Name: what it is for
        <input
          required
          maxLength={MOST_NAME}
          value={fields.name}
          onChange={({ target }) => change({ name: target.value })}
          {...faulty(id, fault)}
        />
      </label>
      {fault && <Fault id={id}>{fault}</Fault>}
    </div>
  );
}

export function Roles({ fields: { roles }, offer, change, problem }: Props) {
  const id = useId();
  const fault = problem("roles");
  const toggle = (name: RoleName) =>
    change({ roles: roles.includes(name) ? roles.filter((each) => each !== name) : [...roles, name] });
  return (
    <fieldset {...faulty(id, fault)}>
      <legend>Roles</legend>
      {offer.roles.map(({ name, words }) => (
        <label key={name} className="check">
          <input type="checkbox" checked={roles.includes(name)} onChange={() => toggle(name)} />
          <span>
            <b>{name}</b> <span className="quiet">{words}</span>
          </span>
        </label>
      ))}
      {fault && <Fault id={id}>{fault}</Fault>}
    </fieldset>
  );
}

export function Tenants({ fields, change, problem }: Props) {
  const id = useId();
  const isPlatform = fields.roles.includes("platform");
  const member = isPlatform ? "tenants" : "tenant_id";
  const fault = problem(member);
  return (
    <div>
      {isPlatform ? (
        <label>
          Tenants that it serves, one id a line (empty: all that you see)
          <textarea
            rows={2}
            spellCheck={false}
            value={fields.tenants}
            onChange={({ target }) => change({ tenants: target.value })}
            {...faulty(id, fault)}
          />
        </label>
      ) : (
        <label>
          Tenant: the id of the one whose key it is
          <input
            value={fields.tenant_id}
            spellCheck={false}
            required={!fields.roles.includes("scrape")}
            onChange={({ target }) => change({ tenant_id: target.value })}
            {...faulty(id, fault)}
          />
        </label>
      )}
      {fault && <Fault id={id}>{fault}</Fault>}
    </div>
  );
}

const THESE = ["these", "only these"] as const;
type Choice = readonly [extent: Extent, words: string];

export function Lists(props: Props) {
  const { workflows, secrets } = props.offer;
  const ownWorkflows = workflows ? `all of yours: ${workflows.join(", ") || "none"}` : "all workflows";
  return (
    <>
      <List {...props} list="workflows" name="Workflows" choices={[["absent", ownWorkflows], THESE]} />
      <List
        {...props}
        list="services"
        name="Services that a worker may serve"
        choices={[["absent", "none"], THESE, ["all", "all services (*)"]]}
      />
      <List
        {...props}
        list="secrets"
        name="Secrets that definitions may name"
        choices={[
          ["absent", "none"],
          ...(secrets?.length === 0 ? [] : [THESE]),
          ...(secrets ? [] : ([["all", "all secrets of the tenant (*)"]] as const)),
        ]}
      />
    </>
  );
}

interface ListProps extends Props {
  readonly list: ListName;
  readonly name: string;
  readonly choices: readonly Choice[];
}

function List({ fields, change, problem, list, name, choices }: ListProps) {
  const id = useId();
  const { extent, text } = fields[list];
  const fault = problem(list);
  return (
    <div className="patterns">
      <label>
        {name}
        <select
          value={extent}
          onChange={({ target }) => change({ [list]: { extent: target.value as Extent, text } })}
          {...faulty(id, fault)}
        >
          {choices.map(([extent, words]) => (
            <option key={extent} value={extent}>
              {words}
            </option>
          ))}
        </select>
      </label>
      {extent === "these" && (
        <label>
          One a line: a whole name, or the beginning of names and * (left empty, the key has no {list})
          <textarea
            rows={2}
            spellCheck={false}
            placeholder={"billing.*"}
            aria-label={`Only these ${list}`}
            value={text}
            onChange={({ target }) => change({ [list]: { extent, text: target.value } })}
            {...faulty(id, fault)}
          />
        </label>
      )}
      {fault && <Fault id={id}>{fault}</Fault>}
    </div>
  );
}

const EXPIRIES = [
  ["30", "in 30 days"],
  ["90", "in 90 days"],
  ["365", "in a year"],
  ["at", "at a time of your choice"],
  ["", "with your own key, if that has an end; otherwise never"],
] as const;

export function Expiry({ fields, change, problem }: Props) {
  const id = useId();
  const fault = problem("expires_at");
  return (
    <div>
      <label>
        Expires
        <select
          value={fields.expiry}
          onChange={({ target }) => change({ expiry: target.value })}
          {...faulty(id, fault)}
        >
          {EXPIRIES.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      </label>
      {fields.expiry === "at" && (
        <label>
          Time
          <input
            type="datetime-local"
            required
            max="9999-12-31T23:59"
            value={fields.expires_at}
            onChange={({ target }) => change({ expires_at: target.value })}
            {...faulty(id, fault)}
          />
        </label>
      )}
      {fault && <Fault id={id}>{fault}</Fault>}
    </div>
  );
}
