// The rules, each by its latest version. A rule's table is on a page of its own.
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { get } from "../browser/client.js";
import type { List, Rule } from "../browser/resources.js";
import { useTitle } from "../browser/title.js";
import { Answer } from "../parts/notes.js";
import { Pager, useOffset } from "../parts/pager.js";
import { Scroll } from "../parts/scroll.js";
import { Tenant, useSeesTenants } from "../parts/tenants.js";
import { When } from "../parts/values.js";
import { Published } from "../parts/versions.js";

export default function Page() {
  const offset = useOffset();
  useTitle("Rules");
  const rules = useQuery({
    queryKey: ["rules", "list", offset],
    queryFn: ({ signal }) => get<List<Rule>>("/rules", { query: { offset }, signal }),
  });
  return (
    <>
      <h1>Rules</h1>
      <Answer of={rules}>
        {(page) => (
          <>
            {page.total === 0 ? <Nothing /> : <Table rules={page.items} />}
            <Pager of={page} label="rules" />
          </>
        )}
      </Answer>
    </>
  );
}

const Nothing = () => (
  <p className="quiet">
    There are no rules. A rule is a decision table that workflows evaluate; <code>POST /api/v1/rules</code> stores one.
  </p>
);

function Table({ rules }: { rules: readonly Rule[] }) {
  // A definition may be for one tenant only. Whose its name is, the API does not say.
  const seesTenants = useSeesTenants(rules) && rules.some(({ tenant_id }) => typeof tenant_id === "string");
  return (
    <Scroll label="Rules">
      <table>
        <thead>
          <tr>
            <th scope="col">Rule</th>
            <th scope="col">Id</th>
            {seesTenants && <th scope="col">For tenant</th>}
            <th scope="col">Version</th>
            <th scope="col">Rows</th>
            <th scope="col">Stored</th>
          </tr>
        </thead>
        <tbody>
          {rules.map((rule) => (
            <Row key={rule.rule_id} {...{ rule, seesTenants }} />
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Row({ rule, seesTenants }: { rule: Rule; seesTenants: boolean }) {
  const { rule_id: id, tenant_id: tenant, name, version, published, spec, created_at: at } = rule;
  return (
    <tr>
      <td>
        <Link href={`/rules/${id}`}>{name}</Link>
      </td>
      <td>
        <code>{id}</code>
      </td>
      {seesTenants && (
        <td>
          <Tenant id={tenant} />
        </td>
      )}
      <td>
        {version} <Published is={published} />
      </td>
      <td>{spec.rows.length}</td>
      <td>
        <When at={at} />
      </td>
    </tr>
  );
}
